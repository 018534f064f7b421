/* The parts of a live page: they hear by a WebSocket that something has happened, and then are asked
   for anew, at most once a second. Nothing is kept of the events themselves. */

import { morph, withoutBlanks } from "./morph.js";
import { follow } from "./stream.js";

export const root = document.getElementById("corral-live");
export const parts = document.getElementById("live-parts");
const connection = document.getElementById("live-connection");
const told = document.getElementById("live-told");
const why = document.getElementById("live-why");
const LEAST_MS = 1000;
const BREATH = 4;
const RECORDED_MS = 500; // what has happened stands in the record a moment later

// Time: "12 sec" grows by itself --------------------------------------------------------------

let ahead = 0; // of this clock, seconds before the server's

function readClock() {
    ahead = Date.now() / 1000 - Number(parts.querySelector("[data-now]").dataset.now);
}

function unit(count, name) {
    const style = { style: "unit", unit: name, unitDisplay: name === "day" ? "long" : "short" };
    return new Intl.NumberFormat(document.documentElement.lang || "en", style).format(count);
}

function lasting(seconds) {
    const whole = Math.max(0, Math.floor(seconds));
    if (whole < 60) return unit(whole, "second");
    if (whole < 3600) return unit(Math.floor(whole / 60), "minute");
    if (whole < 86400) {
        return `${unit(Math.floor(whole / 3600), "hour")} ${unit(Math.floor((whole % 3600) / 60), "minute")}`;
    }
    return unit(Math.floor(whole / 86400), "day");
}

function showTimes() {
    const now = Date.now() / 1000 - ahead;
    for (const each of parts.querySelectorAll("[data-at]")) {
        const text = lasting(now - Number(each.dataset.at));
        if (each.textContent !== text) each.textContent = text;
    }
}

// The parts ------------------------------------------------------------------------------------

let queried = () => ({});
let records = () => true;
let past = false; // whether what has happened may have something new
let asking = false;
let again = false;
let nextAt = 0;
let pastTimer = 0;
let timer = 0;

export function renewPast() {
    past = true;
    renewSoon();
}

function renewPastSoon() {
    if (pastTimer) return;
    pastTimer = setTimeout(() => {
        pastTimer = 0;
        renewPast();
    }, RECORDED_MS);
}

function renewSoon() {
    if (asking) {
        again = true;
        return;
    }
    if (timer) return;
    timer = setTimeout(renew, Math.max(nextAt - performance.now(), 0));
}

async function renew() {
    timer = 0;
    asking = true;
    const query = new URLSearchParams({ ...queried(), past: past ? "1" : "0" });
    past = false;
    const began = performance.now();
    try {
        const answer = await fetch(`${root.dataset.parts}?${query}`);
        if (answer.status === 403) {
            sessionEnded();
        } else if (answer.ok) {
            show(await answer.text());
        }
    } catch (problem) {
        if (!(problem instanceof TypeError)) throw problem;
        // The network is away: the socket says so too, and asks again when it is back.
    } finally {
        asking = false;
        const took = performance.now() - began;
        nextAt = began + Math.max(LEAST_MS, took * BREATH); // a busy server is asked less often
        if (again) {
            again = false;
            renewSoon();
        }
    }
}

function show(html) {
    const fresh = document.createElement("div");
    fresh.innerHTML = html;
    withoutBlanks(fresh);
    for (const part of fresh.children) {
        morph(parts.querySelector(`:scope > [data-key="${part.dataset.key}"]`), part);
    }
    readClock();
    showTimes();
}

// What is heard ------------------------------------------------------------------------------

function say(text, lost) {
    connection.textContent = text;
    connection.classList.toggle("lost", lost);
}

/* Nobody is let in any more: it is not tried again. Other scripts of the page hear `corral:ended`. */
export function sessionEnded() {
    say(root.dataset.ended, true);
    stream.end();
    root.dispatchEvent(new Event("corral:ended"));
}

function opened() {
    say(root.dataset.connected, false);
    renewPast();
}

function lost() {
    const since = new Date().toLocaleTimeString();
    if (!connection.classList.contains("lost")) say(root.dataset.lost.replace("{time}", since), true);
    renewSoon(); // which tells whether the network is away, or the session has ended
}

function hear(event) {
    if (event.event === "download_progress" || isAStepOfALoad(event)) return;
    renewSoon();
    if (event.event !== "activity" && records(event)) renewPastSoon();
}

/* Then only its card's bar moves. */
function isAStepOfALoad(event) {
    const progress = event.data && event.data.status === "loading" && event.data.progress;
    if (!progress) return false;
    const cards = parts.querySelectorAll('.live-card[data-state="loading"]');
    const card = [...cards].find((each) => each.dataset.preset === event.model);
    const bar = card && card.querySelector("progress:not([hidden])");
    if (!bar) return false;
    bar.value = progress.value;
    return true;
}

// What a person does -------------------------------------------------------------------------

root.addEventListener("submit", async (event) => {
    const form = event.target.closest("[data-ask]");
    if (!form) return;
    event.preventDefault();
    const body = new FormData(form, event.submitter);
    let said = [{ level: "error", text: root.dataset.failed }];
    try {
        const answer = await fetch(form.action, { method: "POST", body, headers: { "X-Requested-With": "fetch" } });
        if (answer.redirected) {
            said = [{ level: "error", text: root.dataset.ended }];
            sessionEnded();
        } else if (answer.ok) {
            said = (await answer.json()).told;
        }
    } catch (problem) {
        if (!(problem instanceof TypeError)) throw problem;
    }
    told.replaceChildren(...said.map(paragraph));
    renewSoon();
});

function paragraph({ level, text }) {
    const line = document.createElement("p");
    line.className = level === "error" ? "corral-fault" : "";
    line.textContent = text;
    return line;
}

root.addEventListener("click", async (event) => {
    if (event.target.closest("[data-close]")) {
        why.close();
        return;
    }
    const plain = !(event.ctrlKey || event.metaKey || event.shiftKey);
    const link = plain && event.target.closest("[data-why-link]");
    if (!link) return;
    event.preventDefault();
    let answer = null;
    try {
        answer = await fetch(link.href, { headers: { "X-Requested-With": "fetch" } });
    } catch (problem) {
        if (!(problem instanceof TypeError)) throw problem;
    }
    if (!answer || !answer.ok || answer.redirected) {
        location.assign(link.href); // which says what is in the way
        return;
    }
    why.querySelector("[data-why]").innerHTML = await answer.text();
    why.showModal();
});

// ---------------------------------------------------------------------------------------------

let stream = null;

/* `query()` is what the page asks for its parts with; `records(event)` says whether it tells of what
   has been there. What the parts are is their page's: `#live-parts` within `#corral-live`. */
export function begin({ query, records: recorded }) {
    if (query) queried = query;
    if (recorded) records = recorded;
    withoutBlanks(parts);
    readClock();
    setInterval(showTimes, 1000);
    stream = follow({ opened, heard: hear, lost });
}
