import { useState } from "preact/hooks";
import { get, post } from "../../data/api.ts";
import { may } from "../../data/session.ts";
import { usePages } from "../../data/use-pages.ts";
import { Act } from "../../parts/act.tsx";
import { Empty } from "../../parts/empty.tsx";
import { List } from "../../parts/list.tsx";
import { Ago } from "../../parts/time.tsx";
import { useTold } from "../../parts/told.tsx";

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
        <p class="quiet">Locks held for ten seconds or more. This list is not updated automatically.</p>
        <button type="button" onClick={pages.again}>
          Refresh
        </button>
      </div>
      {line}
      <List
        pages={pages}
        noun={["lock", "locks"]}
        empty={
          <Empty command="await lockOf(env, { name }).with(async () => …)">
            No lock has been held for ten seconds. Code takes a lock for work that only one holder may do at a time:
          </Empty>
        }
      >
        {(rows) => (
          <ul class="items">
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
                    held by <bdi>{holder || "an unnamed holder"}</bdi>
                  </p>
                  <p class="quiet">
                    {waiting === 0 ? "none waiting" : `${waiting} waiting`} · expires <Ago at={until} /> unless renewed · fencing token{" "}
                    {token}
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
          final="The holder cannot get the lock back."
          show={() => (
            <p>
              The holder loses the lock{asked.waiting > 0 ? ", and the next one waiting gets it" : ""}. The holder learns this when it
              renews. Its fenced writes are refused after the next holder has written.
            </p>
          )}
          act={(reason) => post("/v1/locks/:name/break", { param: { name: asked.name }, body: { reason } })}
          done={({ broken, action_id }) => told(broken ? `Broken (action ${action_id}).` : "The lock was already free.")}
          close={() => ask(undefined)}
        />
      )}
    </>
  );
}
