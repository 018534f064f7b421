/* The same request for curl, Python and JavaScript. No key is in any of them. */

const KEY = "CORRAL_KEY";
/* What OpenAI's client for Python has arguments for; all else travels as its `extra_body`. */
const KNOWN = new Set([
    "model", "messages", "temperature", "top_p", "max_tokens", "seed", "stop", "tools", "stream", "stream_options",
]);

/** By the language's name. `base` is the address that ends with /v1. */
export function snippets(request, base) {
    return { curl: curl(request, base), Python: python(request, base), JavaScript: javascript(request, base) };
}

/* The body comes by a here-document: a picture is longer than an argument may be. */
function curl(request, base) {
    return [
        `curl -sSN '${base}/chat/completions' \\`,
        `  -H "Authorization: Bearer $${KEY}" \\`,
        "  -H 'Content-Type: application/json' \\",
        "  --data-binary @- <<'JSON'",
        JSON.stringify(request, null, 2),
        "JSON",
    ].join("\n");
}

function python(request, base) {
    const known = Object.entries(request).filter(([name]) => KNOWN.has(name));
    const rest = Object.fromEntries(Object.entries(request).filter(([name]) => !KNOWN.has(name)));
    const lines = known.map(([name, value]) => `    ${name}=${literal(value, 1)},`);
    if (Object.keys(rest).length) lines.push(`    extra_body=${literal(rest, 1)},`);
    return [
        "import os",
        "",
        "from openai import OpenAI",
        "",
        `client = OpenAI(base_url=${literal(base, 0)}, api_key=os.environ["${KEY}"])`,
        "stream = client.chat.completions.create(",
        ...lines,
        ")",
        "for chunk in stream:",
        "    if chunk.choices:",
        '        print(chunk.choices[0].delta.content or "", end="", flush=True)',
        "",
    ].join("\n");
}

/* JSON's strings are Python's, too, but for a surrogate that stands alone. */
function literal(value, depth) {
    if (value === null) return "None";
    if (value === true) return "True";
    if (value === false) return "False";
    if (typeof value !== "object") return JSON.stringify(value);
    const inner = "    ".repeat(depth + 1);
    const outer = "    ".repeat(depth);
    const several = Array.isArray(value)
        ? value.map((each) => literal(each, depth + 1))
        : Object.entries(value).map(([name, each]) => `${JSON.stringify(name)}: ${literal(each, depth + 1)}`);
    const [open, close] = Array.isArray(value) ? "[]" : "{}";
    if (!several.length) return open + close;
    return `${open}\n${several.map((each) => `${inner}${each},`).join("\n")}\n${outer}${close}`;
}

function javascript(request, base) {
    return [
        'import OpenAI from "openai";',
        "",
        `const client = new OpenAI({ baseURL: ${JSON.stringify(base)}, apiKey: process.env.${KEY} });`,
        `const stream = await client.chat.completions.create(${JSON.stringify(request, null, 2)});`,
        "for await (const chunk of stream) {",
        '  process.stdout.write(chunk.choices[0]?.delta?.content ?? "");',
        "}",
        "",
    ].join("\n");
}
