// OpenAI's SDK for Node, with nothing changed but its baseURL.
import assert from "node:assert/strict";
import test from "node:test";

import OpenAI from "openai";

const { CORRAL_URL, CORRAL_KEY } = process.env;
const client = new OpenAI({ baseURL: `${CORRAL_URL}/v1`, apiKey: CORRAL_KEY, maxRetries: 0 });
const asked = { model: "alpha", messages: [{ role: "user", content: "Hello" }], max_tokens: 4 };

test("a chat is answered whole and in parts", async () => {
  const whole = await client.chat.completions.create(asked);
  const parts = [];
  for await (const part of await client.chat.completions.create({ ...asked, stream: true })) {
    parts.push(part);
  }

  assert.ok(whole.usage.completion_tokens > 0);
  assert.match(parts.at(-1).choices[0].finish_reason, /^(stop|length)$/);
});

test("a response is given whole and in events", async () => {
  const response = { model: "alpha", input: "Hello", max_output_tokens: 8 };
  const whole = await client.responses.create(response);
  const kinds = [];
  for await (const event of await client.responses.create({ ...response, stream: true })) {
    kinds.push(event.type);
  }

  assert.ok(whole.usage.output_tokens > 0);
  assert.equal(kinds[0], "response.created");
  assert.equal(kinds.at(-1), "response.completed");
});

test("texts become vectors, packed as the SDK asks for them", async () => {
  const { data } = await client.embeddings.create({ model: "embedder", input: ["one", "two"] });

  assert.deepEqual(data.map((each) => each.embedding.length), [64, 64]);
});

test("models are listed and found", async () => {
  const listed = [];
  for await (const model of client.models.list()) listed.push(model.id);

  assert.ok(listed.includes("alpha"));
  assert.equal((await client.models.retrieve("alpha")).id, "alpha");
});

test("a stream that is aborted ends, and the client can ask again", async () => {
  const stream = await client.chat.completions.create({
    ...asked, model: "endless", max_tokens: 100000, stream: true,
  });
  for await (const _ of stream) stream.controller.abort();

  const again = await client.chat.completions.create({ ...asked, model: "endless" });
  assert.ok(again.choices[0].finish_reason);
});

test("what fails is an error of its kind", async () => {
  await assert.rejects(
    client.chat.completions.create({ ...asked, model: "nobody" }),
    (error) => error instanceof OpenAI.NotFoundError && error.code === "model_not_found",
  );
  await assert.rejects(
    client.chat.completions.create({ ...asked, messages: "x" }), OpenAI.BadRequestError,
  );
  await assert.rejects(
    new OpenAI({ baseURL: `${CORRAL_URL}/v1`, apiKey: "ck_wrong" }).models.list(),
    OpenAI.AuthenticationError,
  );
});
