/* Tries the preset as its form stands. The trial lasts as long as its answer is being read: whoever
   leaves the page, or stops it, ends it. */

const section = document.getElementById("corral-trial");
const form = section.closest("form");
const begin = section.querySelector("[data-try]");
const stop = section.querySelector("[data-stop]");
const text = section.querySelector("[data-text]");
const bar = section.querySelector("progress");
const table = section.querySelector("table");
const words = section.querySelector("[data-words]");

let aborting = null;

async function run() {
    aborting = new AbortController();
    running(true);
    show({ stage: "begun", text: section.dataset.begun, words: "", progress: null, figures: [] });
    let last = "";
    try {
        const answer = await fetch(section.dataset.url, {
            method: "POST",
            body: new FormData(form),
            headers: { "X-Requested-With": "fetch" },
            signal: aborting.signal,
        });
        if (answer.redirected || answer.status === 403) {
            text.textContent = section.dataset.ended;
            return;
        }
        for await (const news of lines(answer.body.getReader())) {
            last = news.stage;
            show(news);
        }
        if (last !== "answered" && last !== "failed") text.textContent = section.dataset.lost;
    } catch (problem) {
        if (problem.name === "AbortError") text.textContent = section.dataset.stopped;
        else if (problem instanceof TypeError) text.textContent = section.dataset.lost;
        else throw problem;
    } finally {
        running(false);
    }
}

async function* lines(reader) {
    const decoder = new TextDecoder();
    let rest = "";
    for (;;) {
        const { done, value } = await reader.read();
        if (done) return;
        const found = (rest + decoder.decode(value, { stream: true })).split("\n");
        rest = found.pop();
        for (const line of found) if (line) yield JSON.parse(line);
    }
}

function running(is) {
    const held = document.activeElement;
    begin.disabled = is;
    stop.hidden = !is;
    if (is && held === begin) stop.focus();
    if (!is && held === stop) begin.focus();
    if (!is) bar.hidden = true;
}

function show(news) {
    if (text.textContent !== news.text) text.textContent = news.text;
    text.className = news.stage === "failed" ? "corral-fault" : "";
    words.textContent = news.words || "";
    words.hidden = !news.words;
    bar.hidden = news.stage !== "loads";
    if (typeof news.progress === "number") bar.value = news.progress;
    else bar.removeAttribute("value");
    const rows = (news.figures || []).map(([name, value]) => row(name, value));
    table.tBodies[0].replaceChildren(...rows);
    table.hidden = !rows.length;
}

function row(name, value) {
    const line = document.createElement("tr");
    const head = document.createElement("th");
    head.scope = "row";
    head.textContent = name;
    const cell = document.createElement("td");
    cell.textContent = value;
    line.append(head, cell);
    return line;
}

begin.hidden = false;
begin.addEventListener("click", run);
stop.addEventListener("click", () => aborting.abort());
