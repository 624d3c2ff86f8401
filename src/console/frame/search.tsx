import { useEffect, useId, useRef, useState } from "preact/hooks";
import { type Answer, get } from "../data/api.ts";
import type { Problem } from "../data/problem.ts";
import { ProblemNote } from "../parts/problem.tsx";
import { useKeys } from "./keys.ts";
import { go, hrefOf } from "./router.tsx";

type Found = Answer<"/v1/search">["items"][number];

const LOOK_BEHIND_MS = 200;

/** The screen of something that was found, by the route that shows it; undefined for what no screen shows. */
export function screenOf({ url }: Pick<Found, "url">): string | undefined {
  const action = /^\/v1\/audit\?cursor=([^&]+)_&/.exec(url)?.[1];
  if (action) return hrefOf("audit", { row: action });
  const [, noun = "", id = ""] = /^\/v1\/([\w-]+)\/([^/?]+)/.exec(url) ?? [];
  const name = { instances: "instances", correlations: "jobs", "dead-letters": "dead-letters", "bulk-actions": "actions" }[noun];
  return name && id && hrefOf(name, decodeURIComponent(id));
}

/** One box for any id or key: straight to the thing, or a list of what has that name. */
export function Search() {
  const [text, setText] = useState("");
  const [found, setFound] = useState<Answer<"/v1/search"> | undefined>();
  const [problem, setProblem] = useState<Problem | undefined>();
  const [at, setAt] = useState(0);
  const box = useRef<HTMLInputElement>(null);
  const list = useId();
  useKeys({ "/": () => box.current?.select() });

  const q = text.trim();
  useEffect(() => {
    setFound(undefined);
    setProblem(undefined);
    if (q.length < 3) return;
    const over = new AbortController();
    const timer = setTimeout(async () => {
      const result = await get("/v1/search", { query: { q }, signal: over.signal });
      if (over.signal.aborted) return;
      setAt(0);
      if (result.ok) setFound(result.data);
      else setProblem(result.problem);
    }, LOOK_BEHIND_MS);
    return () => {
      clearTimeout(timer);
      over.abort();
    };
  }, [q]);

  const close = () => {
    setText("");
    box.current?.blur();
  };
  const open = async (one?: Found) => {
    const asked = found ? undefined : await get("/v1/search", { query: { q } });
    const items = found?.items ?? (asked?.ok ? asked.data.items : []);
    const which = one ?? items[at];
    const href = which && screenOf(which);
    if (!href) return;
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
  const isOpen = q.length >= 3 && (found !== undefined || problem !== undefined);

  return (
    <search>
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
        onBlur={() => setTimeout(() => setText(""), 150)}
      />
      <div id={list} role="listbox" aria-label="What was found" class="found" hidden={!isOpen}>
        {found?.items.map((one, index) => (
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
            <span class="quiet">{one.kind.replaceAll("_", " ")}</span> <span class="cut">{one.title}</span>
            <span class="quiet">{screenOf(one) ? one.status : `GET ${one.url}`}</span>
          </div>
        ))}
        {found?.items.length === 0 && <p class="quiet">Nothing has this name, nor one that begins so.</p>}
        {problem && <ProblemNote problem={problem} />}
      </div>
    </search>
  );
}
