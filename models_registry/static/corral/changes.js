/* Tells the page's own parts (`hx-trigger="corral:changed from:body"`) that something has happened to
   models: at most once a second, and not while nobody looks. */

import { follow } from "./stream.js";

const LEAST_MS = 1000;
let timer = 0;
let missed = false;

function tell() {
    timer = 0;
    if (document.visibilityState !== "visible") {
        missed = true;
        return;
    }
    missed = false;
    document.body.dispatchEvent(new CustomEvent("corral:changed"));
}

function tellSoon() {
    if (!timer) timer = setTimeout(tell, LEAST_MS);
}

document.addEventListener("visibilitychange", () => {
    if (missed) tellSoon();
});

follow({
    opened: tell,
    heard(event) {
        if (event.event !== "download_progress") tellSoon();
    },
    lost() {},
});
