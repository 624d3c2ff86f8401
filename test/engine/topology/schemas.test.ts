import { defineCommand, defineConsumer, defineEvent, defineQueue, defineWorkflow, on } from "millrace";
import { catalog } from "millrace/worker";
import { expect, it } from "vitest";
import * as z from "zod";

const queue = defineQueue({ name: "schema-commands" });
const events = defineQueue({ name: "schema-events" });
const payload = z.object({ name: z.string() });

/** A consumer of a command with this payload schema. */
function performing(payload: z.ZodType) {
  const on = defineCommand<unknown, string>({ type: "schema.asked", payload, key: () => "k", subject: () => "s", queue });
  return defineConsumer({ queue, starts: [defineWorkflow({ name: "schema", on, run: async () => undefined })] });
}

/** A consumer of an event with this payload schema. */
function hearing(payload: z.ZodType) {
  const told = defineEvent<unknown, string>({ type: "schema.told", payload, subject: () => "s", queue: events });
  return defineConsumer({ queue: events, routes: [on(told)] });
}

it.each<[what: string, schema: z.ZodType, where: string]>([
  ["transforms it", payload.transform((given) => given), "payload"],
  ["prepares it", z.preprocess((given) => given, payload), "payload"],
  ["transforms a field", payload.extend({ note: z.string().transform((note) => `${note}!`) }), "payload.note"],
  ["transforms an alternative", payload.extend({ of: z.array(z.union([z.int(), z.string().transform(Number)])) }), "payload.of.*"],
  ["contains a stringbool", payload.extend({ isNew: z.stringbool().optional() }), "payload.isNew"],
  ["transforms a field after a pipe", payload.extend({ at: z.lazy(() => z.string().pipe(z.transform(Number))) }), "payload.at"],
])("a catalog is refused when a payload's schema %s, and the error names the field", (_, schema, where) => {
  const refused = (what: string) =>
    expect.objectContaining({ code: "config_invalid", message: expect.stringContaining(`The schema of the ${what}`) });
  expect(() => catalog({ consumers: [performing(schema)] })).toThrow(
    refused(`command "schema.asked" has a transform at ${where}, which would be applied again at every hop`),
  );
  expect(() => catalog({ consumers: [hearing(schema)] })).toThrow(
    refused(`event "schema.told" has a transform at ${where}, which would be applied again at every hop`),
  );
});

interface Branch {
  branches: Branch[];
}
const branch: z.ZodType<Branch> = z.object({ branches: z.lazy(() => branch.array()) });

it.each<[string, z.ZodType]>([
  ["fills in defaults", payload.extend({ note: z.string().default("").catch("") })],
  ["pipes one check into another", payload.extend({ at: z.string().pipe(z.email()) })],
  ["normalizes texts and numbers", payload.extend({ email: z.string().trim().toLowerCase(), at: z.coerce.number() })],
  ["refers to itself", branch],
  ["takes any JSON", payload.extend({ more: z.json() })],
])("a catalog is accepted when a payload's schema %s", (_, schema) => {
  expect(catalog({ consumers: [performing(schema), hearing(schema)] }).workflows).toHaveLength(1);
});
