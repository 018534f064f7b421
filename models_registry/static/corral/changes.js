/* Tells the page's own parts that something has happened: to models (`hx-trigger="corral:changed
   from:body"`), or to what is being fetched (`corral:fetched`). Of each at most once a second, and
   not while nobody looks. */

import { follow } from "./stream.js";

const LEAST_MS = 1000;
const untold = new Set();
let timer = 0;

function tell() {
    timer = 0;
    if (document.visibilityState !== "visible") return;
    for (const name of untold) document.body.dispatchEvent(new CustomEvent(name));
    untold.clear();
}

function tellSoon(...names) {
    for (const name of names) untold.add(name);
    if (!timer) timer = setTimeout(tell, LEAST_MS);
}

document.addEventListener("visibilitychange", () => {
    if (untold.size) tellSoon();
});

follow({
    opened() {
        untold.add("corral:changed").add("corral:fetched");
        tell();
    },
    heard(event) {
        if (event.event.startsWith("download_")) tellSoon("corral:fetched");
        else tellSoon("corral:changed", "corral:fetched");
    },
    lost() {},
});
