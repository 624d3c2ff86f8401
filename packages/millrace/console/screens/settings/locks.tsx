import { useState } from "preact/hooks";
import { get, post } from "../../data/api.ts";
import { may } from "../../data/session.ts";
import { usePages } from "../../data/use-pages.ts";
import { Act } from "../../parts/act.tsx";
import { Empty } from "../../parts/empty.tsx";
import { List } from "../../parts/list.tsx";
import { Ago } from "../../parts/time.tsx";
import { useTold } from "./told.tsx";

/** Locks that have been held for a while: by whom, and who waits. */
export function Locks() {
  const [asked, ask] = useState<{ name: string; waiting: number } | undefined>();
  const pages = usePages((cursor) => get("/v1/locks", { query: { cursor } }), [], {
    nameOf: ({ name }) => name,
    isAbout: ({ kind, data }) => kind === "action" && data.verb === "break",
  });
  const { told, line } = useTold(pages.again);
  return (
    <>
      <div class="settings-bar">
        <p class="quiet">Those that have been held for ten seconds and more. Nothing tells of a lock that comes or goes: look again.</p>
        <button type="button" onClick={pages.again}>
          Look again
        </button>
      </div>
      {line}
      <List
        pages={pages}
        noun={["lock", "locks"]}
        empty={
          <Empty command="await lockOf(env, { name }).with(async () => …)">
            No lock is held for ten seconds. Code takes one for what only one may do at a time:
          </Empty>
        }
      >
        {(rows) => (
          <ul class="settings-things">
            {rows.map(({ name, holder, since, until, waiting, token }) => (
              <li key={name}>
                <span class="quiet">
                  <Ago at={since} />
                </span>
                <div>
                  <p>
                    <strong>
                      <bdi>{name}</bdi>
                    </strong>{" "}
                    held by <bdi>{holder || "somebody who says no name"}</bdi>
                  </p>
                  <p class="quiet">
                    {waiting === 0 ? "nobody waits" : waiting === 1 ? "one waits" : `${waiting} wait`} · free <Ago at={until} /> unless it
                    is renewed · fencing token {token}
                  </p>
                </div>
                {may("operate") && (
                  <div class="acts">
                    <button type="button" onClick={() => ask({ name, waiting })}>
                      Break
                    </button>
                  </div>
                )}
              </li>
            ))}
          </ul>
        )}
      </List>
      {asked && (
        <Act
          title={`Break ${asked.name}`}
          verb="Break it"
          final="Its holder does not get it back."
          show={() => (
            <p>
              It is taken from its holder{asked.waiting > 0 ? ", and who waits is next" : ""}. The holder hears of it when it renews; what
              it writes with its fence is refused once the next holder has written.
            </p>
          )}
          act={(reason) => post("/v1/locks/:name/break", { param: { name: asked.name }, body: { reason } })}
          done={({ broken, action_id }) => told(broken ? `Broken, as action ${action_id}.` : "Nobody held it any more.")}
          close={() => ask(undefined)}
        />
      )}
    </>
  );
}
