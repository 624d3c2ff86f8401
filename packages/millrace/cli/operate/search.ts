import type { Found } from "./answers.ts";
import { sayPage } from "./list.ts";
import { NO_VERB, type Noun, verb } from "./verb.ts";

const COLUMNS = ["what", "id", "status", "by", ""].map((title) => ({ title }));

export const search: Noun = {
  does: "Finds anything by an id, a key or a subject",
  verbs: {
    [NO_VERB]: verb({
      takes: "TEXT",
      does: "Finds anything by an id, a key or a subject, also by how it begins",
      async run(asked) {
        const found = await asked.api.get<Found>(`/v1/search?${new URLSearchParams({ q: asked.about })}`);
        sayPage(asked, found, {
          columns: COLUMNS,
          row: ({ kind, id, status, by, title }) => [kind, id, status ?? "", by, title],
          none: "Nothing has this name.",
          isLastProse: true,
        });
        return 0;
      },
    }),
  },
};
