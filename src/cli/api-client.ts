import type { ExtractSchema } from "hono/types";
import type { commands } from "../api/commands.ts";
import type { effects } from "../api/effects.ts";
import type { events } from "../api/events.ts";
import type { instances } from "../api/instances.ts";
import type { Problem } from "../api/problem.ts";
import type { retry } from "../api/retry.ts";
import type { steps } from "../api/steps.ts";
import { Refusal } from "./command.ts";

// What the routes answer is said by the routes: one that changes does not compile here.
type Routes = ExtractSchema<
  ReturnType<typeof commands> | ReturnType<typeof effects>
>;
type X = ExtractSchema<ReturnType<typeof instances>>["/v1/instances"]["$get"];
export const x: X = 1;
type Y = ExtractSchema<ReturnType<typeof commands>>;
export const y: Y = 1;
