// Ollama's own client for JavaScript, with nothing changed but host and key: every method it has
// for a server of one's own.
import assert from "node:assert/strict";
import test from "node:test";

import { Ollama } from "ollama";

const { CORRAL_OLLAMA: host, CORRAL_KEY, CORRAL_ADMIN_KEY } = process.env;
const clientWith = (key) => new Ollama({ host, headers: { Authorization: `Bearer ${key}` } });
const ollama = clientWith(CORRAL_KEY);
const admin = clientWith(CORRAL_ADMIN_KEY);

const messages = [{ role: "user", content: "Hello" }];
const options = { num_predict: 4, temperature: 0, num_ctx: 99999, num_gpu: 3 };
const weather = {
  type: "function",
  function: {
    name: "weather",
    description: "The weather of a city.",
    parameters: {
      type: "object",
      properties: { city: { type: "string", enum: ["Oslo", "Rome"] } },
      required: ["city"],
    },
  },
};
// Random weights never begin a call by themselves; once it has begun, they can write nothing else.
const calling = [...messages, { role: "assistant", content: "<tool_call>\n" }];
const all = async (stream) => {
  const parts = [];
  for await (const part of stream) parts.push(part);
  return parts;
};
const refused = (status, words) => (error) =>
  error.name === "ResponseError" && error.status_code === status && words.test(error.message);

test("a chat is answered whole and in parts, with the same words", async () => {
  const whole = await ollama.chat({ model: "alpha", messages, options });
  const parts = await all(await ollama.chat({ model: "alpha", messages, options, stream: true }));

  assert.equal(whole.message.role, "assistant");
  assert.ok(whole.eval_count > 0 && whole.eval_count <= 4);
  assert.equal(parts.map((part) => part.message.content).join(""), whole.message.content);
  assert.deepEqual(parts.map((part) => part.done).slice(-2), [false, true]);
});

test("a text is generated whole, in parts, raw, and on a context", async () => {
  const first = await ollama.generate({ model: "alpha", prompt: "Once", options });
  const again = await ollama.generate({
    model: "alpha", prompt: "And?", context: first.context, options,
  });
  const raw = { model: "alpha", prompt: "Once", raw: true, options };
  const whole = await ollama.generate(raw);
  const parts = await all(await ollama.generate({ ...raw, stream: true }));

  assert.ok(again.prompt_eval_count > first.prompt_eval_count);
  assert.equal(parts.map((part) => part.response).join(""), whole.response);
});

test("a tool is called with its arguments as an object", async () => {
  const asked = { model: "caller", messages: calling, tools: [weather], options: { num_predict: 200 } };
  const whole = await ollama.chat(asked);
  const parts = await all(await ollama.chat({ ...asked, stream: true }));

  const streamed = parts.flatMap((part) => part.message.tool_calls ?? []);
  for (const call of [whole.message.tool_calls[0], streamed[0]]) {
    assert.equal(call.function.name, "weather");
    assert.match(call.function.arguments.city, /^(Oslo|Rome)$/);
  }
});

test("an answer has the form of a schema", async () => {
  const format = {
    type: "object", properties: { good: { type: "boolean" } }, required: ["good"],
  };
  const answer = await ollama.chat({
    model: "alpha", messages, format, options: { num_predict: 60, temperature: 0 },
  });

  assert.equal(typeof JSON.parse(answer.message.content).good, "boolean");
});

test("a stream that is aborted ends, and the client can ask again", async () => {
  const endless = { num_predict: -1 };
  const stream = await ollama.chat({ model: "endless", messages, options: endless, stream: true });
  await assert.rejects(async () => {
    for await (const _ of stream) stream.abort();
  }, { name: "AbortError" });

  const others = await ollama.chat({ model: "endless", messages, options: endless, stream: true });
  await assert.rejects(async () => {
    for await (const _ of others) ollama.abort();
  }, { name: "AbortError" });
  assert.equal((await ollama.chat({ model: "endless", messages, options })).done, true);
});

test("texts become vectors, in the new form and in the old", async () => {
  const { embeddings } = await ollama.embed({ model: "embedder", input: ["one", "two"] });
  const { embedding } = await ollama.embeddings({ model: "embedder", prompt: "one" });

  assert.deepEqual(embeddings.map((vector) => vector.length), [64, 64]);
  assert.equal(embedding.length, 64);
});

test("what is there is listed, shown, and told when it is loaded", async () => {
  await ollama.generate({ model: "beta", prompt: "", keep_alive: "10m" });
  const names = ({ models }) => models.map((model) => model.model);

  assert.ok(names(await ollama.list()).includes("beta:latest"));
  assert.ok(names(await ollama.ps()).includes("beta:latest"));
  assert.match((await ollama.show({ model: "alpha" })).template, /tool_call/);
  assert.match((await ollama.version()).version, /^\d+\.\d+\.\d+$/);
});

test("a model is pulled, made, copied, used and deleted", async () => {
  const steps = await all(await admin.pull({ model: "tiny:1b", stream: true }));
  assert.equal(steps.at(-1).status, "success");
  assert.equal((await admin.pull({ model: "tiny:1b" })).status, "success");

  const made = await admin.create({ model: "js-brief", from: "tiny:1b", system: "Be brief." });
  assert.equal(made.status, "success");
  await admin.copy({ source: "js-brief", destination: "js-twin" });
  assert.ok((await ollama.chat({ model: "js-twin", messages, options })).done);
  assert.equal((await ollama.show({ model: "js-twin" })).system, "Be brief.");

  for (const model of ["js-twin", "js-brief", "tiny:1b"]) {
    assert.equal((await admin.delete({ model })).status, "success");
  }
  await assert.rejects(ollama.show({ model: "js-twin" }), refused(404, /not found/));
});

test("errors are told with their words", async () => {
  const asks = [
    [() => ollama.chat({ model: "nobody", messages }), 404, /try pulling it first/],
    [() => ollama.chat({ model: "nobody", messages, stream: true }), 404, /try pulling it first/],
    [() => ollama.chat({ model: "beta", messages, tools: [weather] }), 400, /does not support tools/],
    [() => ollama.generate({ model: "alpha", prompt: "a ".repeat(30000) }), 400, /context size/],
    [() => ollama.delete({ model: "alpha" }), 403, /may not manage/],
    [() => admin.push({ model: "alpha" }), 501, /would publish/],
    [() => clientWith("ck_wrong").list(), 401, /key/],
  ];
  for (const [ask, status, words] of asks) {
    await assert.rejects(ask(), refused(status, words), String(ask));
  }
  const failing = await admin.pull({ model: "nobody:1b", stream: true });
  await assert.rejects(all(failing), /pull model/);
});
