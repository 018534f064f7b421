/* The playground: what is chosen and typed on the page, and the sides to which it goes. */

import { Fault, pictureOf, settingsOf, turnOf } from "./request.js";
import { Side } from "./side.js";
import { snippets } from "./snippets.js";
import { element } from "./turns.js";

const MOST_PICTURES = 8;

const root = document.getElementById("playground");
const config = JSON.parse(document.getElementById("playground-config").textContent);
const words = config.words;
const form = document.getElementById("pg-form");
const settingsForm = document.getElementById("pg-settings");
const prompt = document.getElementById("pg-prompt");
const note = document.getElementById("pg-note");
const pictureList = document.getElementById("pg-pictures");
const dialog = document.getElementById("pg-code");
const teams = document.getElementById("pg-team");
const choices = [document.getElementById("pg-model"), document.getElementById("pg-other")];

const page = {
    words,
    config,
    token: root.querySelector("[name=csrfmiddlewaretoken]").value,
    get carried() {
        return config.carried.replace("TEAM", teams.value);
    },
    changed: show,
};
const sides = [...root.querySelectorAll("[data-side]")].map((node) => new Side(node, page));

let models = new Map();
let pictures = [];

// Models ---------------------------------------------------------------------------------------

async function readModels() {
    const kept = choices.map((each) => each.value);
    kept[0] ||= new URLSearchParams(location.search).get("model") || "";
    let listed;
    try {
        const answer = await fetch(`${page.carried}/models`, { headers: { "X-CSRFToken": page.token } });
        const told = await answer.json();
        if (!answer.ok) {
            tell(told.error.message, true);
            listed = [];
        } else {
            listed = told.data;
        }
    } catch (problem) {
        console.error(problem);
        tell(words.away, true);
        return;
    }
    models = new Map(listed.map((each) => [each.id, each]));
    const options = listed.map((each) => new Option(nameOf(each), each.id));
    choices[0].replaceChildren(...options.map((each) => each.cloneNode(true)));
    choices[1].replaceChildren(new Option(words.none, ""), ...options);
    for (const [number, each] of choices.entries()) {
        if (models.has(kept[number]) || (number && !kept[number])) each.value = kept[number];
    }
    if (listed.length) tell(noteOf());
    else if (!note.classList.contains("corral-fault")) tell(words.noModels, true);
    show();
}

function nameOf(model) {
    const state = model.status?.detail || model.status?.value || "";
    return state && state !== "unloaded" ? `${model.id} · ${words.states[state] || state}` : model.id;
}

function noteOf() {
    const team = config.teams.find((each) => String(each.id) === teams.value);
    return team?.stored || "";
}

function tell(text, wrong = false) {
    note.textContent = text;
    note.classList.toggle("corral-fault", wrong);
}

// What is shown --------------------------------------------------------------------------------

function asked() {
    return sides.slice(0, choices[1].value ? 2 : 1);
}

function takesPictures(name) {
    return models.get(name)?.architecture?.input_modalities?.includes("image");
}

/** The model that is asked and takes none, though its conversation has some; null for none. */
function refusesPictures() {
    const [first, second] = sides;
    for (const [number, side] of asked().entries()) {
        const from = side === second && !second.turns.length ? first : side;
        const name = choices[number].value;
        if (from.hasPictures() && !takesPictures(name)) return name;
    }
    return null;
}

function show() {
    const busy = sides.some((each) => each.busy);
    sides[1].node.hidden = !choices[1].value;
    root.classList.toggle("compared", Boolean(choices[1].value));
    for (const [number, side] of sides.entries()) {
        side.node.querySelector("[data-model]").textContent = choices[number].value;
        side.node.querySelector("[data-code]").disabled = !choices[number].value;
    }
    document.getElementById("pg-send").disabled = busy || !choices[0].value;
    document.getElementById("pg-stop").hidden = !busy;
    for (const each of [teams, ...choices]) each.disabled = busy;
    const may = asked().every((_side, number) => takesPictures(choices[number].value));
    document.getElementById("pg-attach").hidden = !may;
    if (!may && pictures.length) {
        pictures = [];
        showPictures();
    }
}

// Sending --------------------------------------------------------------------------------------

function settings() {
    for (const old of settingsForm.querySelectorAll(".corral-fault")) old.remove();
    try {
        return settingsOf(settingsForm, words);
    } catch (problem) {
        if (!(problem instanceof Fault)) throw problem;
        const fault = element("p", "corral-fault", problem.message);
        fault.setAttribute("role", "alert");
        problem.field.closest("details").open = true;
        problem.field.after(fault);
        problem.field.focus();
        return null;
    }
}

form.addEventListener("submit", (event) => {
    event.preventDefault();
    send();
});

function send() {
    const text = prompt.value.trim();
    if (sides.some((each) => each.busy) || !choices[0].value || (!text && !pictures.length)) return;
    const wanted = settings();
    if (!wanted) return;
    const refusing = refusesPictures();
    if (refusing !== null) {
        tell(words.takesNoPictures.replace("{name}", refusing), true);
        return;
    }
    tell(noteOf());
    const turn = turnOf(text, pictures);
    prompt.value = "";
    pictures = [];
    showPictures();
    for (const side of asked()) side.takeResults();
    if (choices[1].value && !sides[1].turns.length) sides[1].adopt(sides[0]);
    for (const [number, side] of asked().entries()) side.ask(turn, choices[number].value, wanted);
}

prompt.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return; // a composed letter is not sent
    event.preventDefault();
    send();
});

document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !dialog.open) stop();
});

function stop() {
    for (const side of sides) side.stop();
}

document.getElementById("pg-stop").addEventListener("click", stop);
document.getElementById("pg-new").addEventListener("click", () => {
    for (const side of sides) side.clear();
    tell(noteOf());
    readModels();
    prompt.focus();
});
teams.addEventListener("change", () => {
    for (const side of sides) side.clear();
    readModels();
});
for (const each of choices) {
    each.addEventListener("change", () => {
        tell(noteOf());
        show();
    });
}
window.addEventListener("focus", () => {
    if (!sides.some((each) => each.busy)) readModels(); // what is loaded may have changed
});

// Pictures -------------------------------------------------------------------------------------

async function addPictures(files) {
    for (const file of files) {
        if (pictures.length >= MOST_PICTURES) {
            tell(words.manyPictures.replace("{count}", MOST_PICTURES), true);
            break;
        }
        try {
            pictures.push(await pictureOf(file));
            tell(noteOf());
        } catch (problem) {
            if (!(problem instanceof DOMException)) throw problem;
            tell(words.noPicture.replace("{name}", file.name), true);
        }
    }
    showPictures();
}

function showPictures() {
    pictureList.replaceChildren(...pictures.map((url, number) => {
        const item = element("li");
        const picture = document.createElement("img");
        picture.src = url;
        picture.alt = words.picture;
        const remove = element("button", "corral-button", words.remove);
        remove.type = "button";
        remove.addEventListener("click", () => {
            pictures.splice(number, 1);
            showPictures();
        });
        item.append(picture, remove);
        return item;
    }));
}

const files = document.getElementById("pg-files");
files.hasChangeListener = true; // or the admin's look adds one of its own, for a field that it made itself
files.addEventListener("change", (event) => {
    addPictures([...event.target.files]);
    event.target.value = "";
});
prompt.addEventListener("paste", (event) => {
    const files = [...event.clipboardData.files].filter((each) => each.type.startsWith("image/"));
    if (!files.length || !takesPictures()) return;
    event.preventDefault();
    addPictures(files);
});

// The same as code -----------------------------------------------------------------------------

for (const [number, side] of sides.entries()) {
    side.node.querySelector("[data-code]").addEventListener("click", () => {
        const wanted = side.last ? null : settings();
        if (side.last || wanted) showCode(side.last || codeBefore(side, number, wanted));
    });
}

/** Of a request that was not sent yet: as it would be, with what is typed. */
function codeBefore(side, number, wanted) {
    const request = side.request(choices[number].value, wanted);
    request.messages.push(turnOf(prompt.value.trim(), pictures));
    return request;
}

let shown = {};

function showCode(request) {
    shown = snippets(request, `${location.origin}/v1`);
    showLanguage();
    dialog.showModal();
}

function showLanguage() {
    const text = shown[dialog.querySelector("[name=language]:checked").value];
    const copy = dialog.querySelector("[data-copy]");
    document.getElementById("pg-code-text").textContent = copy.dataset.copy = text;
    copy.textContent = words.copy;
}

for (const each of dialog.querySelectorAll("[name=language]")) each.addEventListener("change", showLanguage);
dialog.querySelector("[data-close]").addEventListener("click", () => dialog.close());

readModels();
