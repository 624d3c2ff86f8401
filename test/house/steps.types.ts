// Checked by `tsc`: what must not compile says so with @ts-expect-error, which fails the check if it does compile.
import { defineStep, type EffectCall, type Steps } from "../../src/engine/index.ts";
import { ContentPublish } from "../../src/messages/content.ts";

declare const step: Steps;
declare const when: number;
declare const anything: string;
const put = defineStep({ effect: "natural", run: async ({ input }: EffectCall<{ path: string }>) => ({ url: input.path }) });

void step.read("load", async () => 1);

// @ts-expect-error a name made from the time would be another one on the next pass
void step.read(`load-${when}`, async () => 1);

// @ts-expect-error a name that is not a literal cannot be known to be the same
void step.effect(anything, put, { path: "a" });

// @ts-expect-error the step's input is typed by its definition
void step.effect("put", put, { path: 1 });

// @ts-expect-error a lookup step must be able to look up
void defineStep({ effect: "lookup", run: async () => 1 });

// @ts-expect-error a message's payload is typed by its schema
void ContentPublish.from({ content_id: 1, brand: "acme" });

void step.effect("put", put, { path: "a" }, { record: ({ url }) => ({ emit: [ContentPublish.from({ content_id: url, brand: "acme" })] }) });
