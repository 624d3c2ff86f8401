import { Misuse } from "../command.ts";
import { REASON, reasonOf } from "./act.ts";
import type { EffectList, EffectPage, Resolved } from "./answers.ts";
import { goesOn, WAIT } from "./follow.ts";
import { PAGED, queryOf, sayPage } from "./list.ts";
import { type Asked, type Noun, type Option, type Verb, verb } from "./verb.ts";
import { instanceId, pathOf } from "./which.ts";
import { ago, shownJson, stepName, tell, typedJson } from "./words.ts";

type Effect = EffectList["items"][number];

const COLUMNS = ["key", "step", "class", "state", "since", "sent"].map((title) => ({ title }));

const list = verb({
  does: "Lists the effects of which nobody knows whether they happened, oldest first; or all of one instance",
  options: {
    instance: { value: "ID", says: "all effects of this instance, or of latest" },
    workflow: { value: "NAME", says: "in doubt, of this workflow" },
    step: { value: "STEP", says: "in doubt, of this step" },
    ...PAGED,
  },
  async run(asked) {
    const { api, text } = asked;
    const of = text("instance");
    const query = queryOf({ workflow: text("workflow"), step: text("step"), limit: text("limit"), cursor: text("cursor") });
    if (of !== undefined && query !== "") throw new Misuse("--instance stands alone: it lists all of that instance's.");
    const path = of === undefined ? `/v1/effects${query}` : pathOf("instances", await instanceId({ ...asked, about: of }), "/effects");
    sayPage(asked, await api.get<EffectPage | EffectList>(path), {
      columns: COLUMNS,
      row: (one: Effect) => [
        one.key,
        stepName(one),
        one.class,
        one.state,
        ago(one.updated_at),
        one.input === null ? "" : shownJson(one.input),
      ],
      none: of === undefined ? "No effect is in doubt." : "It has no effect on record.",
      isLastProse: true,
    });
    return 0;
  },
});

interface Answer {
  does: string;
  options?: Readonly<Record<"output", Option>>;
  body?: (asked: Asked<"output">) => Promise<object>;
}

/** An answer to a doubt, by which its instance goes on. */
function answer(name: string, { does, options, body }: Answer): Verb {
  return verb<"reason" | "output" | "wait">({
    takes: "KEY",
    does,
    options: { ...REASON, ...options, ...WAIT } as Record<"reason" | "output" | "wait", Option>,
    async run(asked) {
      const reason = reasonOf(asked);
      const own = (await body?.(asked)) ?? {};
      const resolved = await asked.api.act<Resolved>(pathOf("effects", asked.about, `/${name}`), { ...own, reason });
      tell(`The doubt is resolved, and ${resolved.instance_id} goes on.`);
      return goesOn(asked, resolved.instance_id, resolved);
    },
  });
}

export const effects: Noun = {
  does: "Effects: what a step does outside. KEY is an effect's, as the list has it",
  verbs: {
    list,
    confirm: answer("confirm", {
      does: "Says that an effect happened, and what it answered",
      options: { output: { value: "JSON", says: "what it answered: null where it answers nothing; @FILE, -" } },
      async body({ text }) {
        const output = text("output");
        if (output === undefined) throw new Misuse("--output is missing: say what the effect answered; null where it answers nothing.");
        return { output: await typedJson("output", output) };
      },
    }),
    reject: answer("reject", { does: "Says that an effect did not happen: it is done" }),
    retry: answer("retry", { does: "Has an effect done again of which nobody can tell: it may happen twice" }),
  },
};
