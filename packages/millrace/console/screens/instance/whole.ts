import { type Answer, get, type Item, type Result } from "../../data/api.ts";

export type Detail = Answer<"/v1/instances/:id">;
export type Step = Item<"/v1/instances/:id/steps">;
export type Effect = Item<"/v1/instances/:id/effects">;
export type Message = Item<"/v1/instances/:id/events">;
export type Action = Item<"/v1/audit">;
export type Question = Item<"/v1/approvals">;

export const UNDO_STEP = "undo ";

export function hasUndoFailed({ status, undo }: Pick<Detail, "status" | "undo">): boolean {
  return status === "errored" && undo === "open";
}

export const MOST_ACTIONS = 50;

export interface Whole {
  instance: Detail;
  steps: Step[];
  effects: Effect[];
  messages: Message[];
  actions: Action[];
  questions: Question[];
}

/**
 * Loads an instance with its steps, effects, actions and questions. `reveal` loads the redacted values; the API records this in the audit.
 */
export async function wholeInstance(id: string, reveal: boolean): Promise<Result<Whole>> {
  const param = { id };
  const revealed = reveal ? { reveal: "true" as const } : {};
  const [instance, steps, effects, messages, actions, questions] = await Promise.all([
    get("/v1/instances/:id", { param, query: revealed }),
    get("/v1/instances/:id/steps", { param }),
    get("/v1/instances/:id/effects", { param, query: revealed }),
    get("/v1/instances/:id/events", { param, query: { payload: "true", ...revealed } }),
    get("/v1/audit", { query: { instance: id, limit: String(MOST_ACTIONS) } }),
    get("/v1/approvals", { query: { instance: id } }),
  ]);
  if (!instance.ok) return instance;
  if (!steps.ok) return steps;
  if (!effects.ok) return effects;
  if (!messages.ok) return messages;
  if (!actions.ok) return actions;
  if (!questions.ok) return questions;
  return {
    ok: true,
    data: {
      instance: instance.data,
      steps: steps.data.items,
      effects: effects.data.items,
      messages: messages.data.items,
      actions: actions.data.items,
      questions: questions.data.items,
    },
  };
}
