/* A model's page: its parts are renewed when something happens to it; its log is searched, and
   followed by a WebSocket of its own. */

import { begin, root } from "./live_parts.js";

const part = document.getElementById("model-log-part");
const MOST_LINES = 2000; // that stand on the page
const SHOW_MS = 100;
const FIRST_WAIT_MS = 1000;
const LONGEST_WAIT_MS = 15000;

/* How long its next request waits depends on all models: of others only what has been is passed over. */
function mine(event) {
    return !event.model || event.model === "*" || event.model === root.dataset.model;
}

begin({ records: mine });
if (part) log();

function log() {
    const form = part.querySelector("[data-log-form]");
    const shown = part.querySelector("[data-log]");
    const button = part.querySelector("[data-follow]");
    const state = part.querySelector("[data-log-state]");
    const run = form.elements.run;
    const find = form.elements.find;
    let socket = null;
    let wait = FIRST_WAIT_MS;
    let timer = 0;
    let counts = []; // lines of each child of the pane that holds lines
    let last = ""; // run
    let heard = []; // and not yet shown
    let showing = 0;

    // Asked for -------------------------------------------------------------------------------

    async function ask() {
        const query = new URLSearchParams({ run: run.value, find: find.value });
        history.replaceState(null, "", `?${query}#model-log`);
        const answer = await fetch(`${part.dataset.lines}?${query}`);
        if (!answer.ok) {
            location.reload(); // nobody is logged in any more
            return;
        }
        shown.innerHTML = await answer.text();
        const fresh = shown.querySelector("template");
        const chosen = run.value;
        run.replaceChildren(...fresh.content.cloneNode(true).children);
        run.value = chosen;
        toTheEnd();
    }

    form.addEventListener("submit", (event) => {
        event.preventDefault();
        stop();
        ask();
    });

    run.addEventListener("change", () => form.requestSubmit());

    root.addEventListener("click", (event) => {
        const plain = !(event.ctrlKey || event.metaKey || event.shiftKey);
        const link = plain && event.target.closest("[data-run]");
        if (!link) return;
        event.preventDefault();
        if (![...run.options].some((each) => each.value === link.dataset.run)) {
            run.add(new Option(link.dataset.run, link.dataset.run));
        }
        run.value = link.dataset.run;
        find.value = "";
        stop();
        ask().then(() => {
            part.scrollIntoView();
            pane().focus();
        });
    });

    // Followed --------------------------------------------------------------------------------

    button.addEventListener("click", () => (socket || timer ? stop() : start()));

    function start() {
        run.value = "";
        find.value = "";
        button.setAttribute("aria-pressed", "true");
        connect();
    }

    function stop() {
        clearTimeout(timer);
        timer = 0;
        button.setAttribute("aria-pressed", "false");
        state.textContent = part.dataset.still;
        if (!socket) return;
        const ended = socket;
        socket = null;
        ended.close();
    }

    function connect() {
        timer = 0;
        const scheme = location.protocol === "https:" ? "wss" : "ws";
        const opened = new WebSocket(`${scheme}://${location.host}${part.dataset.socket}`);
        socket = opened;
        opened.addEventListener("message", (message) => {
            if (socket === opened) hear(JSON.parse(message.data));
        });
        opened.addEventListener("close", () => {
            if (socket !== opened) return;
            socket = null;
            if (state.textContent === part.dataset.follows) {
                const since = new Date().toLocaleTimeString();
                state.textContent = part.dataset.lost.replace("{time}", since);
            }
            timer = setTimeout(connect, wait);
            wait = Math.min(2 * wait, LONGEST_WAIT_MS);
        });
    }

    /* The first message has the last lines; each one after it what was printed since. What comes is
       shown some times a second: laying out is what costs. */
    function hear(told) {
        wait = FIRST_WAIT_MS;
        if (state.textContent !== part.dataset.follows) state.textContent = part.dataset.follows;
        if (told.first) heard = [];
        heard.push(told);
        showing ||= setTimeout(show, SHOW_MS);
    }

    function show() {
        showing = 0;
        if (!heard.length || !socket) return;
        const lines = pane();
        const first = heard[0].first;
        const atEnd = first || lines.scrollHeight - lines.scrollTop - lines.clientHeight < 40;
        if (first) {
            lines.replaceChildren();
            shown.querySelector("[data-told]").textContent = "";
            counts = [];
            last = "";
        }
        for (const { pieces } of heard) for (const piece of pieces) add(lines, piece);
        heard = [];
        let count = counts.reduce((sum, each) => sum + each, 0);
        while (counts.length > 1 && count > MOST_LINES) {
            count -= counts.shift();
            lines.firstChild.remove();
        }
        if (atEnd) toTheEnd();
    }

    function add(lines, piece) {
        const block = document.createElement("div");
        if (piece.run !== last) {
            const title = document.createElement("div");
            title.className = "model-run";
            title.textContent = part.dataset.runTitle.replace("{at}", piece.at);
            block.append(title);
            last = piece.run;
        }
        const text = document.createElement("div");
        text.textContent = piece.lines;
        block.append(text);
        lines.append(block);
        counts.push(piece.lines.split("\n").length - 1);
    }

    function pane() {
        return shown.querySelector("[data-pane]");
    }

    function toTheEnd() {
        pane().scrollTop = pane().scrollHeight;
    }

    button.hidden = false;
    toTheEnd();
    if (!run.value && !find.value) start();
    else state.textContent = part.dataset.still;
}
