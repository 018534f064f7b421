/* The ticks of the steps change as things are done elsewhere; the address is this browser's. */

const root = document.getElementById("first-steps");
const told = document.getElementById("first-told");
const LOOK_MS = 2000;
const MOST_WAIT_MS = 30000;

let wait = LOOK_MS;

function show(done) {
    for (const badge of root.querySelectorAll("[data-state]")) {
        if (!done[badge.dataset.state] || badge.classList.contains("good")) continue;
        badge.classList.replace("warn", "good");
        badge.textContent = badge.dataset.done;
    }
    const all = Object.values(done).every(Boolean);
    if (all) told.textContent = told.dataset.done;
    return all;
}

async function look() {
    try {
        const answer = await fetch(root.dataset.state);
        if (answer.redirected) return; // to the log-in: the session has ended
        if (answer.ok && show(await answer.json())) return;
        wait = LOOK_MS;
    } catch (problem) {
        if (!(problem instanceof TypeError)) throw problem;
        wait = Math.min(2 * wait, MOST_WAIT_MS); // the network is away
    }
    later();
}

/* A page that nobody sees asks nothing. */
function later() {
    setTimeout(() => {
        if (document.hidden) document.addEventListener("visibilitychange", look, { once: true });
        else look();
    }, wait);
}

/* Behind a proxy with TLS the gateway may not know by which address it was reached. */
const { base } = root.dataset;
if (base !== location.origin) {
    for (const text of root.querySelectorAll("[data-text]")) {
        text.textContent = text.textContent.replaceAll(base, location.origin);
        const copy = root.querySelector(`[data-of="${text.id}"]`);
        copy.dataset.copy = text.textContent;
    }
}
if (!told.textContent) later();
