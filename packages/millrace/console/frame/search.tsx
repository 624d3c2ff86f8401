import { useEffect, useId, useLayoutEffect, useRef, useState } from "preact/hooks";
import { type Answer, get } from "../data/api.ts";
import { useData } from "../data/use-data.ts";
import { ProblemNote } from "../parts/page.tsx";
import { inWords } from "../parts/text.tsx";
import { go, hrefOf, Link, useKeys, usePlace } from "./router.tsx";

type Found = Answer<"/v1/search">["items"][number];

const PAUSE_MS = 200;
const NONE = { ok: true as const, data: undefined };
const SHORTEST = 3;

const SCREEN_OF: Readonly<Record<string, (name: string) => string>> = {
  instances: (id) => hrefOf("instances", id),
  correlations: (id) => hrefOf("jobs", id),
  "dead-letters": (id) => hrefOf("dead-letters", id),
  "bulk-actions": (id) => hrefOf("actions", id),
  schedules: (name) => hrefOf("settings", "schedules", { name }),
  keys: (key) => hrefOf("messages", { q: key }),
  // The id of a question begins with the id of the question's instance.
  approvals: (id) => hrefOf("instances", id.slice(0, 32)),
};

export function screenOf({ url }: Pick<Found, "url">): string | undefined {
  const action = /^\/v1\/audit\?cursor=([^&]+)_&/.exec(url)?.[1];
  if (action) return hrefOf("audit", { row: action });
  const [, noun = "", name = ""] = /^\/v1\/([\w-]+)\/([^/?]+)/.exec(url) ?? [];
  return name ? SCREEN_OF[noun]?.(decodeURIComponent(name)) : undefined;
}

export function Nothing({ q, looked }: { q: string; looked: Answer<"/v1/search">["scanned"] }) {
  return (
    <>
      Nothing matches <bdi>{q}</bdi>. Ids match by their first 6 characters, other names by their first 3. An instance's key and a subject
      match only as a whole
      {looked.since !== null && <>, a subject among the newest {looked.instances.toLocaleString()} instances</>}.{" "}
      <Link to={hrefOf("instances", { subject: q })}>Search all instances for this subject</Link>
    </>
  );
}

export function Search() {
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  const [isHere, setHere] = useState(false);
  const box = useRef<HTMLInputElement>(null);
  const list = useId();
  useKeys({ "/": () => box.current?.select() });

  const q = text.trim();
  const { data: found, problem } = useData<Answer<"/v1/search"> | undefined>(
    async () => (q.length < SHORTEST ? NONE : get("/v1/search", { query: { q } })),
    [q],
    [],
    {
      pauseMs: PAUSE_MS,
    },
  );
  useEffect(() => setAt(0), [found]);

  const place = usePlace();
  useLayoutEffect(() => setText(""), [place]);
  const close = () => {
    setText("");
    box.current?.blur();
  };
  const open = async (one?: Found) => {
    const asked = found ? undefined : await get("/v1/search", { query: { q } });
    const which = one ?? (found?.items ?? (asked?.ok ? asked.data.items : []))[at];
    const href = which && screenOf(which);
    if (!href || (asked && document.activeElement !== box.current)) return;
    close();
    go(href);
  };
  const move = (event: KeyboardEvent) => {
    const last = (found?.items.length ?? 0) - 1;
    if (event.key === "Escape") close();
    else if (event.key === "Enter" && q) void open();
    else if (event.key === "ArrowDown") setAt(Math.min(at + 1, last));
    else if (event.key === "ArrowUp") setAt(Math.max(at - 1, 0));
    else return;
    event.preventDefault();
  };
  const isShort = q !== "" && q.length < SHORTEST;
  const isOpen = isHere && (isShort || found !== undefined || problem !== undefined);
  const items = found?.items ?? [];
  // When the search box loses the focus, its text remains and only the list is hidden.
  const stay = ({ currentTarget, relatedTarget }: { currentTarget: EventTarget; relatedTarget: EventTarget | null }) =>
    setHere((currentTarget as Node).contains(relatedTarget as Node | null));

  return (
    <search onFocusIn={() => setHere(true)} onFocusOut={stay}>
      <input
        ref={box}
        type="text"
        role="combobox"
        aria-label="Search by any id or key"
        aria-expanded={isOpen}
        aria-controls={list}
        aria-activedescendant={isOpen && found?.items[at] ? `${list}-${at}` : undefined}
        autocomplete="off"
        spellcheck={false}
        placeholder="/ any id, key, subject …"
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
        onKeyDown={move}
      />
      <div class="found" hidden={!isOpen}>
        <div id={list} role="listbox" aria-label="Matches">
          {items.map((one, index) => (
            // biome-ignore lint/a11y/useFocusableInteractive: the box keeps the focus and names the option
            <div
              key={`${one.kind} ${one.id}`}
              id={`${list}-${index}`}
              role="option"
              aria-selected={index === at}
              aria-disabled={screenOf(one) === undefined}
              onMouseDown={(event) => {
                event.preventDefault();
                void open(one);
              }}
            >
              <span class="quiet">{inWords(one.kind)}</span> <span class="cut">{one.title}</span>
              <span class="quiet">{screenOf(one) ? one.status : `GET ${one.url}`}</span>
            </div>
          ))}
        </div>
        {isShort && <p class="quiet">Enter at least three characters of a name, or six of an id.</p>}
        {found && items.length === 0 && (
          <p class="quiet">
            <Nothing q={q} looked={found.scanned} />
          </p>
        )}
        {problem && <ProblemNote problem={problem} />}
      </div>
    </search>
  );
}
