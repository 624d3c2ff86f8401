import { type Schema, Validator } from "@cfworker/json-schema";
import { expect, it } from "vitest";
import { FACT_TYPES } from "../../../src/messages/fact.ts";
import { PROCESSED } from "../../../src/messages/facts.ts";
import { callerWith, type Json, send } from "../../api/client.ts";
import { endpoint, outcome, received } from "./hook.ts";

it("the OpenAPI document describes each delivery: every type that can be subscribed to, and the test", async () => {
  const { webhooks }: Json = (await send("/openapi.json")).body;
  expect(Object.keys(webhooks).toSorted()).toEqual([...PROCESSED, "webhook.test"].toSorted());
  expect(PROCESSED.filter((type) => !FACT_TYPES.includes(type))).toEqual([]);

  const caller = await callerWith();
  const { hook, path } = await endpoint(caller);
  await outcome(caller.tenantId);
  await received(hook, 1);
  expect((await caller.post(`${path}/test`, {})).status).toBe(202);
  const sent = (await received(hook, 2)).map(({ body }) => JSON.parse(body) as Json);
  expect(sent.map(({ type }) => type)).toEqual(["outcome", "webhook.test"]);
  for (const body of sent) {
    const { schema } = webhooks[body.type].post.requestBody.content["application/json"];
    const strict = (one: Schema, value: unknown) => new Validator(one, "2020-12").validate(value).errors;
    expect(strict(schema, body)).toEqual([]);
    expect(strict(schema.properties.data, { ...body.data, fact_id: 7 })).not.toEqual([]);
    expect(Object.keys(schema.properties.data.properties)).toEqual(expect.arrayContaining(Object.keys(body.data)));
  }
});
