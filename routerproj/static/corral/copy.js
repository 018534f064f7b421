/* A button with data-copy puts that text on the clipboard; without TLS a browser has only the old way. */
document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy]");
    if (!button) return;
    if (navigator.clipboard) {
        await navigator.clipboard.writeText(button.dataset.copy);
    } else {
        getSelection().selectAllChildren(document.getElementById(button.dataset.of));
        document.execCommand("copy");
    }
    button.textContent = button.dataset.copied || "Copied";
});
