import { useEffect, useState } from "preact/hooks";
import { type Answer, post, type Result } from "../../data/api.ts";
import { type Written, writtenJson } from "../../data/written.ts";

export type Detail = Answer<"/v1/dead-letters/:id">;
export type ReplayPlan = Detail["replay"];

/** A letter's message as somebody edits it, held against its schema as it stands. */
export interface Draft {
  text: string;
  edit: (text: string) => void;
  /** Takes back what was edited. */
  reset: () => void;
  isChanged: boolean;
  /** Where it is no JSON; undefined where it is. */
  mistake: string | undefined;
  /** The message corrected, as it was written; undefined where it is as it came. */
  body: Written | undefined;
  /** What a replay of it would do, and whether that is of an older text. */
  plan: Result<ReplayPlan>;
  isBehind: boolean;
  /** False while it is no JSON, or would be refused. */
  canBeSent: boolean;
}

/** So long nothing is typed before it is asked. */
const REST_MS = 300;

/** The message of a letter as a draft: asked of the dry run of a replay as one types. */
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

/** What a replay would do: the dry run of the API, which changes nothing and is not audited. */
export function planOf(id: string, body: Written | undefined): Promise<Result<ReplayPlan>> {
  const asked = { reason: "Would it pass now?", dry_run: true, ...(body !== undefined && { body }) };
  return post("/v1/dead-letters/:id/replay", { param: { id }, body: asked }) as Promise<Result<ReplayPlan>>;
}

/** Where a text is no JSON, in the browser's words. */
function mistakeIn(text: string): string | undefined {
  try {
    JSON.parse(text);
    return undefined;
  } catch (error) {
    return error instanceof Error ? error.message : undefined;
  }
}

/** The part of a text that an issue's path is about, as far as it is there: from its first character to behind its last. */
export function placeOf(text: string, path: string): readonly [from: number, to: number] {
  let found: readonly [number, number] = [0, 0];
  for (const name of path.split(/[.[\]]+/)) {
    const quoted = JSON.stringify(name === "payload" ? "payload_inline" : name);
    const at = text.indexOf(`${quoted}:`, found[1]);
    if (at >= 0) found = [at, at + quoted.length];
  }
  return found;
}
