// Anthropic's SDK for Node, with nothing changed but its baseURL.
import assert from "node:assert/strict";
import test from "node:test";

import Anthropic from "@anthropic-ai/sdk";

const { CORRAL_URL, CORRAL_KEY } = process.env;
const clientWith = (key) => new Anthropic({ baseURL: CORRAL_URL, ...key, maxRetries: 0 });
const client = clientWith({ apiKey: CORRAL_KEY, authToken: null });
const messages = [{ role: "user", content: "Hello" }];
const asked = { model: "alpha", max_tokens: 8, messages };

test("a message is given whole and in events, with either header for the key", async () => {
  const whole = await client.messages.create(asked);
  const bearer = clientWith({ apiKey: null, authToken: CORRAL_KEY });
  const last = await bearer.messages.stream(asked).finalMessage();

  for (const message of [whole, last]) {
    assert.equal(message.content[0].type, "text");
    assert.match(message.stop_reason, /^(end_turn|max_tokens)$/);
    assert.ok(message.usage.output_tokens > 0);
  }
});

test("tokens are counted, those of a system prompt as well", async () => {
  const plain = await client.messages.countTokens({ model: "alpha", messages });
  const more = await client.messages.countTokens({ model: "alpha", messages, system: "Be brief." });

  assert.ok(more.input_tokens > plain.input_tokens);
});

test("a tool is used", async () => {
  const input_schema = {
    type: "object", properties: { city: { enum: ["Oslo", "Rome"] } }, required: ["city"],
  };
  const message = await client.messages.create({
    ...asked,
    max_tokens: 200,
    messages: [...messages, { role: "assistant", content: "<tool_call>\n" }],
    tools: [{ name: "weather", description: "The weather of a city.", input_schema }],
    tool_choice: { type: "any" },
  });

  const use = message.content.find((block) => block.type === "tool_use");
  assert.equal(use.name, "weather");
  assert.match(use.input.city, /^(Oslo|Rome)$/);
});

test("a stream that is aborted ends, and the client can ask again", async () => {
  const stream = client.messages.stream({ ...asked, model: "endless", max_tokens: 100000 });
  await assert.rejects(async () => {
    for await (const _ of stream) stream.abort();
  }, Anthropic.APIUserAbortError);

  assert.ok((await client.messages.create({ ...asked, model: "endless" })).stop_reason);
});

test("what fails is an error of its kind, with Anthropic's word for it", async () => {
  await assert.rejects(
    client.messages.create({ ...asked, model: "nobody" }),
    (error) =>
      error instanceof Anthropic.NotFoundError && error.error.error.type === "not_found_error",
  );
  await assert.rejects(
    clientWith({ apiKey: "ck_wrong", authToken: null }).messages.create(asked),
    Anthropic.AuthenticationError,
  );
});
