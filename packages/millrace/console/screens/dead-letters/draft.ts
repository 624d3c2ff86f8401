import { useEffect, useState } from "preact/hooks";
import { type Answer, post, type Result } from "../../data/api.ts";
import { type Written, writtenJson } from "../../data/written.ts";

export type Detail = Answer<"/v1/dead-letters/:id">;
export type ReplayPlan = Detail["replay"];

export interface Draft {
  text: string;
  edit: (text: string) => void;
  reset: () => void;
  isChanged: boolean;
  mistake: string | undefined;
  /** The corrected message as the user typed it. Undefined if the user did not change the message. */
  body: Written | undefined;
  /** The result of the replay's dry run. `isBehind` is true if this result belongs to an earlier text. */
  plan: Result<ReplayPlan>;
  isBehind: boolean;
  /** False for invalid JSON and for a text that the API would refuse. */
  canBeSent: boolean;
}

const REST_MS = 300;

/** The editable message of a dead letter. Each pause in typing repeats the dry run of the replay. */
export function useDraft(letter: Detail): Draft {
  const { id } = letter;
  const original = JSON.stringify(letter.body, null, 2);
  const [edited, edit] = useState<string | undefined>();
  const [asked, setAsked] = useState<{ text: string; plan: Result<ReplayPlan> } | undefined>();
  const text = edited ?? original;
  const isChanged = text !== original;
  const body = isChanged ? writtenJson(text) : undefined;
  const mistake = body?.wrong && (mistakeIn(text) ?? body.wrong);

  useEffect(() => {
    if (!isChanged || mistake) return;
    let isOver = false;
    const timer = setTimeout(async () => {
      const plan = await planOf(id, body);
      if (!isOver) setAsked({ text, plan });
    }, REST_MS);
    return () => {
      isOver = true;
      clearTimeout(timer);
    };
  }, [id, text, isChanged]);

  const plan: Result<ReplayPlan> = isChanged && asked ? asked.plan : { ok: true, data: letter.replay };
  const isBehind = isChanged && asked?.text !== text;
  const wouldGo = plan.ok && plan.data.outcome !== "refused" && plan.data.outcome !== "settled";
  return {
    ...{ text, edit, isChanged, mistake, body, plan, isBehind },
    reset: () => edit(undefined),
    canBeSent: !mistake && !isBehind && wouldGo,
  };
}

export function planOf(id: string, body: Written | undefined): Promise<Result<ReplayPlan>> {
  const asked = { reason: "Would it pass now?", dry_run: true, ...(body !== undefined && { body }) };
  return post("/v1/dead-letters/:id/replay", { param: { id }, body: asked }) as Promise<Result<ReplayPlan>>;
}

function mistakeIn(text: string): string | undefined {
  try {
    JSON.parse(text);
    return undefined;
  } catch (error) {
    return error instanceof Error ? error.message : undefined;
  }
}

/** The range of the text to which an issue's path refers: the range of the last name in the path that the text contains. */
export function placeOf(text: string, path: string): readonly [from: number, to: number] {
  let found: readonly [number, number] = [0, 0];
  for (const name of path.split(/[.[\]]+/)) {
    const quoted = JSON.stringify(name === "payload" ? "payload_inline" : name);
    const at = text.indexOf(`${quoted}:`, found[1]);
    if (at >= 0) found = [at, at + quoted.length];
  }
  return found;
}
