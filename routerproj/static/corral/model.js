/* A model's page: its parts are renewed when something happens to it; its log is searched, and
   followed by a WebSocket of its own. */

import { begin, root, sessionEnded } from "./live_parts.js";
import { keepOpen } from "./stream.js";

const part = document.getElementById("model-log-part");
const MOST_LINES = 2000; // that stand on the page
const SHOW_MS = 100;

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
    let following = null;
    let counts = []; // lines of each child of the pane that holds lines
    let last = ""; // run
    let heard = []; // and not yet shown
    let showing = 0;
    let asked = 0;

    // Asked for -------------------------------------------------------------------------------

    async function ask() {
        const query = new URLSearchParams({ run: run.value, find: find.value });
        const number = (asked += 1);
        history.replaceState(null, "", `?${query}#model-log`);
        const text = await lines(query);
        if (text === null || number !== asked) return; // something else was asked for meanwhile
        shown.innerHTML = text;
        const fresh = shown.querySelector("template");
        const chosen = run.value;
        run.replaceChildren(...fresh.content.cloneNode(true).children);
        run.value = chosen;
        toTheEnd();
    }

    /* Null where nothing came, which the state then says. */
    async function lines(query) {
        try {
            const answer = await fetch(`${part.dataset.lines}?${query}`);
            if (answer.ok) return await answer.text();
            if (answer.status === 403) sessionEnded();
        } catch (problem) {
            if (!(problem instanceof TypeError)) throw problem; // the network is away
        }
        state.textContent = root.dataset.failed;
        return null;
    }

    root.addEventListener("corral:ended", stop);

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

    button.addEventListener("click", () => (following ? stop() : start()));

    function start() {
        run.value = "";
        find.value = "";
        button.setAttribute("aria-pressed", "true");
        following = keepOpen(() => part.dataset.socket, { heard: hear, lost });
    }

    function stop() {
        following?.end();
        following = null;
        button.setAttribute("aria-pressed", "false");
        state.textContent = part.dataset.still;
    }

    function lost() {
        if (state.textContent !== part.dataset.follows) return;
        const since = new Date().toLocaleTimeString();
        state.textContent = part.dataset.lost.replace("{time}", since);
    }

    /* The first message has the last lines; each one after it what was printed since. What comes is
       shown some times a second: laying out is what costs. */
    function hear(told) {
        if (state.textContent !== part.dataset.follows) state.textContent = part.dataset.follows;
        if (told.first) heard = [];
        heard.push(told);
        showing ||= setTimeout(show, SHOW_MS);
    }

    function show() {
        showing = 0;
        if (!heard.length || !following) return;
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
