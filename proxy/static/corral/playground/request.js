/* What is sent: the settings of the page and the turns of one side, as a request of OpenAI's API. */

const NUMBERS = ["temperature", "top_p", "top_k", "min_p", "max_tokens", "seed"];

/** What the form says. Throws Fault. */
export function settingsOf(form, words) {
    const settings = { system: form.elements.system.value.trim(), sampling: {} };
    for (const name of NUMBERS) {
        const field = form.elements[name];
        if (!field.validity.valid) throw new Fault(field, words.number);
        if (field.value !== "") settings.sampling[name] = Number(field.value);
    }
    const stop = form.elements.stop.value.split("\n").filter((line) => line !== "");
    if (stop.length) settings.sampling.stop = stop;
    const tools = form.elements.tools.value.trim();
    if (tools) settings.tools = toolsOf(tools, form.elements.tools, words);
    return settings;
}

/** What is wrong with a field, in words. */
export class Fault extends Error {
    constructor(field, message) {
        super(message);
        this.field = field;
    }
}

function toolsOf(text, field, words) {
    let found;
    try {
        found = JSON.parse(text);
    } catch (problem) {
        throw new Fault(field, words.json.replace("{problem}", problem.message));
    }
    if (!Array.isArray(found) || !found.every((each) => each && each.type === "function" && each.function)) {
        throw new Fault(field, words.tools);
    }
    return found;
}

export function requestOf(model, turns, settings) {
    const system = settings.system ? [{ role: "system", content: settings.system }] : [];
    const request = { model, messages: [...system, ...turns], ...settings.sampling };
    if (settings.tools) request.tools = settings.tools;
    return { ...request, stream: true, stream_options: { include_usage: true } };
}

/** A person's turn: text, and pictures as data: addresses. */
export function turnOf(text, pictures) {
    if (!pictures.length) return { role: "user", content: text };
    const parts = pictures.map((url) => ({ type: "image_url", image_url: { url } }));
    return { role: "user", content: [{ type: "text", text }, ...parts] };
}

const MOST_PIXELS = 1536;

/** A picture's file as a JPEG in a data: address, made smaller where it is larger than models take.
    Throws for what is no picture. */
export async function pictureOf(file) {
    const bitmap = await createImageBitmap(file);
    const scale = Math.min(1, MOST_PIXELS / Math.max(bitmap.width, bitmap.height));
    const canvas = document.createElement("canvas");
    canvas.width = Math.max(1, Math.round(bitmap.width * scale));
    canvas.height = Math.max(1, Math.round(bitmap.height * scale));
    const context = canvas.getContext("2d");
    context.fillStyle = "#fff"; // behind what is transparent
    context.fillRect(0, 0, canvas.width, canvas.height);
    context.drawImage(bitmap, 0, 0, canvas.width, canvas.height);
    bitmap.close();
    return canvas.toDataURL("image/jpeg", 0.9);
}
