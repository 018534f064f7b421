/* What would fit of the preset as its form stands: asked anew when somebody edits, one question at a
   time. Nothing is saved by it. */

import { morph, withoutBlanks } from "./morph.js";

const DEBOUNCE_MS = 400;
const section = document.getElementById("corral-fitting");
const shown = document.getElementById("corral-fit");
const told = document.getElementById("corral-fit-for");
const form = section.closest("form");

let timer = 0;
let asking = false;
let again = false;

function askSoon() {
    clearTimeout(timer);
    timer = setTimeout(ask, DEBOUNCE_MS);
}

async function ask() {
    if (asking) {
        again = true;
        return;
    }
    asking = true;
    told.textContent = section.dataset.asking;
    try {
        const answer = await fetch(section.dataset.url, {
            method: "POST",
            body: new FormData(form),
            headers: { "X-Requested-With": "fetch" },
        });
        if (answer.redirected || answer.status === 403) told.textContent = section.dataset.ended;
        else if (answer.ok) show(await answer.text());
        else told.textContent = section.dataset.failed;
    } catch (problem) {
        if (!(problem instanceof TypeError)) throw problem;
        told.textContent = section.dataset.failed;
    } finally {
        asking = false;
        if (again) {
            again = false;
            askSoon();
        }
    }
}

function show(html) {
    const fresh = document.createElement("div");
    fresh.innerHTML = `<div data-key="fit">${html}</div>`;
    keepWhatIsOpen(fresh);
    morph(shown, withoutBlanks(fresh));
    told.textContent = section.dataset.now;
    const held = slider();
    if (held && !held.matches(":active")) held.value = held.getAttribute("value");
    showStep();
    showFaults();
}

function keepWhatIsOpen(fresh) {
    for (const details of fresh.querySelectorAll("details")) {
        const before = shown.querySelector(`details[data-key="${details.dataset.key}"]`);
        if (before) details.open = before.open;
    }
}

/* Beside the fields that they are about. */
function showFaults() {
    for (const old of form.querySelectorAll("[data-live-fault]")) old.remove();
    for (const fault of shown.querySelectorAll("[data-field]")) {
        const field = form.elements[fault.dataset.field];
        if (!field || !field.insertAdjacentElement) continue;
        const line = document.createElement("p");
        line.className = "corral-fault";
        line.dataset.liveFault = "";
        line.textContent = fault.dataset.text;
        field.insertAdjacentElement("afterend", line);
    }
}

// The slider ---------------------------------------------------------------------------------

function slider() {
    return document.getElementById("corral-context");
}

function rows() {
    return [...shown.querySelectorAll('details[data-key="steps"] tbody tr')];
}

/* The bars and the sentence of where the slider stands; the figures are those of the table. */
function showStep() {
    const range = slider();
    if (!range) return;
    const row = rows()[Number(range.value)];
    if (!row) return;
    const cells = row.querySelectorAll("th, [data-device], .corral-badge");
    const words = [...cells].map((cell) => cell.textContent);
    shown.querySelector("[data-said]").textContent = words.join(" · ");
    range.setAttribute("aria-valuetext", words.join(", "));
    for (const bar of shown.querySelectorAll("[data-this]")) {
        const taken = row.querySelector(`[data-device="${CSS.escape(bar.dataset.this)}"]`);
        bar.style.width = taken ? `${taken.dataset.percent}%` : "0";
        bar.classList.toggle("over", Boolean(taken && "over" in taken.dataset));
    }
}

function takeContext() {
    const field = form.elements.ctx_size;
    const row = rows()[Number(slider().value)];
    if (!field || field.disabled || !row) return;
    field.value = row.dataset.at;
    field.dispatchEvent(new Event("input", { bubbles: true }));
}

// What a person does -------------------------------------------------------------------------

for (const kind of ["input", "change"]) {
    form.addEventListener(kind, (event) => {
        if (event.target.id === "corral-context") {
            if (kind === "input") showStep();
            else takeContext();
        } else if (event.target.form === form) {
            askSoon();
        }
    });
}
if (window.django && window.django.jQuery) {
    // Fields with a search in them tell nobody else.
    window.django.jQuery(form).on("select2:select select2:clear select2:unselect", askSoon);
}

/* Where it is about: beneath the fields that decide it. */
const fields = form.elements.ctx_size && form.elements.ctx_size.closest("fieldset");
if (fields) fields.after(section);
withoutBlanks(shown);
showStep();
ask();
