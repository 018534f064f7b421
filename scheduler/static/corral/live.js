/* The live page: how far back its timeline goes, and what stands beneath it. */

import { begin, parts, renewPast, root } from "./live_parts.js";

let span = new URLSearchParams(location.search).get("span") || "";

root.addEventListener("click", (event) => {
    const plain = !(event.ctrlKey || event.metaKey || event.shiftKey);
    const link = plain && event.target.closest("[data-span]");
    if (!link) return;
    event.preventDefault();
    span = link.dataset.span;
    history.replaceState(null, "", link.href);
    renewPast();
});

for (const kind of ["focusin", "pointerover"]) {
    parts.addEventListener(kind, (event) => {
        const item = event.target.closest("[data-tip]");
        if (item) document.getElementById("live-tip").textContent = item.getAttribute("aria-label");
    });
}

begin({ query: () => ({ span }) });
