import { REASON, reasonOf } from "./act.ts";
import type { ApprovalPage, Resolved } from "./answers.ts";
import { goesOn, WAIT } from "./follow.ts";
import { PAGED, queryOf, sayPage } from "./list.ts";
import { type Noun, type Verb, verb } from "./verb.ts";
import { pathOf } from "./which.ts";
import { moment, tell } from "./words.ts";

const COLUMNS = ["id", "workflow", "state", "else", "until", "question"].map((title) => ({ title }));

const list = verb({
  does: "Lists questions to people, newest first",
  options: { state: { value: "STATE", says: "pending, approved or rejected; else pending" }, ...PAGED },
  async run(asked) {
    const { text } = asked;
    const query = queryOf({ state: text("state") ?? "pending", limit: text("limit"), cursor: text("cursor") });
    sayPage(asked, await asked.api.get<ApprovalPage>(`/v1/approvals${query}`), {
      columns: COLUMNS,
      row: ({ id, workflow, state, otherwise, due_at, question }) => [id, workflow, state, otherwise, moment(due_at), question],
      none: "Nobody is asked anything.",
      isLastProse: true,
    });
    return 0;
  },
});

/** An answer to a question, by which its instance goes on. */
function answer(name: string, does: string): Verb {
  return verb({
    takes: "ID",
    does,
    options: { ...REASON, ...WAIT },
    async run(asked) {
      const decided = await asked.api.act<Resolved>(pathOf("approvals", asked.about, `/${name}`), { reason: reasonOf(asked) });
      tell(`It is answered, and ${decided.instance_id} goes on.`);
      return goesOn(asked, decided.instance_id, decided);
    },
  });
}

export const approvals: Noun = {
  does: "Questions that runs ask a person. ID is a question's, as the list has it",
  verbs: {
    list,
    approve: answer("approve", "Says yes: the instance goes on"),
    reject: answer("reject", "Says no: the instance goes on without it"),
  },
};
