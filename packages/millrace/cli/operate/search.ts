import type { Found } from "./answers.ts";
import { sayPage } from "./list.ts";
import { NO_VERB, type Noun, verb } from "./verb.ts";

const COLUMNS = ["what", "id", "status", "by", ""].map((title) => ({ title }));

export const search: Noun = {
  does: "Searches by id, key or subject",
  verbs: {
    [NO_VERB]: verb({
      takes: "TEXT",
      does: "Searches by id, key or subject, or by the beginning of one",
      async run(asked) {
        const found = await asked.api.get<Found>(`/v1/search?${new URLSearchParams({ q: asked.about })}`);
        sayPage(asked, found, {
          columns: COLUMNS,
          row: ({ kind, id, status, by, title }) => [kind, id, status ?? "", by, title],
          none: "No match.",
          isLastProse: true,
        });
        return 0;
      },
    }),
  },
};
