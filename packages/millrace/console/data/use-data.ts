import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { get, type Item, type Path, type Result, send } from "./api.ts";
import { useCell } from "./cell.ts";
import { follow } from "./events.ts";
import { caughtUp, fallBehind, heard, heardNow, isPaused, type LiveEvent, live } from "./live.ts";
import type { Problem } from "./problem.ts";
import { session } from "./session.ts";

export interface Data<T> {
  data: T | undefined;
  problem: Problem | undefined;
  again: () => void;
  /** Reloads the data after a delay. Several calls within the delay cause one reload. */
  soon: () => void;
  /** Changes the shown data. */
  hold: (next: (before: Held<T>) => Held<T>) => void;
}

interface Held<T> {
  data?: T | undefined;
  problem?: Problem | undefined;
}

const LOOK_EVERY_MS = 700;
const AGAIN_MS = 5000;

/** The events after which data is reloaded, as their kinds or as a function. */
type About = readonly string[] | ((event: LiveEvent) => boolean);

interface DataOptions<Loaded, T> {
  /** Joins loaded data with the shown data. Default: the loaded data replace the shown data. */
  merge?: (next: Loaded, before: T | undefined) => T;
  /** The delay in ms after a change of `depends`, for values that change with each key press. */
  pauseMs?: number;
}

/**
 * Loads data immediately, when `depends` changes, after a relevant event, when the page becomes visible, and after a sign-in. While live
 * updates are paused, only the user's actions load the data. Loads do not overlap: after a change during a load, the next load starts when
 * the current load has ended.
 */
export function useData<Loaded, T = Loaded>(
  load: () => Promise<Result<Loaded>>,
  depends: readonly unknown[],
  about: About = [],
  { merge = (next) => next as unknown as T, pauseMs = 0 }: DataOptions<Loaded, T> = {},
): Data<T> {
  const isAbout = typeof about === "function" ? about : ({ kind }: LiveEvent) => about.includes(kind);
  const [held, hold] = useState<Held<T>>({});
  const nth = useCell(session, (one) => one.nth);
  const begun = { turn: 0, isOut: false, isAsked: false, timer: undefined as ReturnType<typeof setTimeout> | undefined };
  const latest = useRef({ load, isAbout, merge, ...begun });
  Object.assign(latest.current, { load, isAbout, merge });

  /** Loads data immediately and ignores the result of a running load, because this result may belong to previous values of `depends`. */
  const look = useCallback(async () => {
    const turn = ++latest.current.turn;
    Object.assign(latest.current, { isOut: true, isAsked: false });
    const askedAt = Date.now();
    const result = await latest.current.load();
    if (turn !== latest.current.turn) return;
    latest.current.isOut = false;
    if (result.ok) {
      heardNow();
      caughtUp(latest, askedAt);
    }
    hold(({ data }) => (result.ok ? { data: latest.current.merge(result.data, data) } : { data, problem: result.problem }));
    if (latest.current.isAsked) void look();
  }, []);
  const again = useCallback(() => {
    if (latest.current.isOut) latest.current.isAsked = true;
    else void look();
  }, []);

  useEffect(() => hold({}), depends);
  useEffect(() => {
    if (++latest.current.turn === 1 || pauseMs === 0) return void look();
    const timer = setTimeout(look, pauseMs);
    return () => clearTimeout(timer);
  }, [...depends, nth]);

  useEffect(() => {
    if (!held.problem?.retryable) return;
    const timer = setTimeout(() => void (!document.hidden && !isPaused() && again()), AGAIN_MS);
    return () => clearTimeout(timer);
  }, [held.problem]);

  const soon = useCallback(() => {
    fallBehind(latest);
    latest.current.timer ??= setTimeout(() => {
      latest.current.timer = undefined;
      again();
    }, LOOK_EVERY_MS);
  }, []);
  useEffect(() => {
    const stop = heard.listen((event) => event && latest.current.isAbout(event) && soon());
    const seen = () => void (!document.hidden && !isPaused() && again());
    document.addEventListener("visibilitychange", seen);
    return () => {
      stop();
      clearTimeout(latest.current.timer);
      latest.current.turn++;
      caughtUp(latest);
      document.removeEventListener("visibilitychange", seen);
    };
  }, []);

  return { data: held.data, problem: held.problem, again, soon, hold };
}

interface Page<Row> {
  items: Row[];
  next_cursor: string | null;
}

export interface Pages<Row> extends Pick<Data<unknown>, "problem" | "again"> {
  rows: Row[] | undefined;
  nameOf: (row: Row) => string;
  /** Loads the next page of the list. Undefined if the last page is loaded. */
  more: (() => void) | undefined;
  /** Reloads the list from the newest row. Undefined if the shown rows include the newest row. */
  newest: (() => void) | undefined;
}

interface Shown<Row> {
  rows: Row[];
  cursor: string | null;
  /** True if pages after the first page are shown. */
  isGrown?: true;
  /** True if there are more new rows than one page, so that rows are missing between the first page and the shown rows. */
  isTorn?: true;
}

export interface ListOptions<Row> {
  /** The parameters of the route's path. */
  param?: Record<string, string>;
  /** Default: the row's id. */
  nameOf?: (row: Row) => string;
  /** Default: the list is reloaded after each action of an operator. */
  about?: About;
  /** Reads a changed row from an event. */
  rowIn?: (event: LiveEvent) => Row | undefined;
  /** Loads a page in another way than by one request to the route. */
  load?: (cursor: string | undefined) => Promise<Result<Page<Row>>>;
}

/**
 * Loads a list page by page. A page has 50 rows, unless `query` contains another limit. The first page is kept up to date and merged with
 * the later pages. If there are more new rows than one page, the shown rows remain until the user requests the newest rows.
 */
export function useList<At extends Path>(at: At, query: object, options: ListOptions<Item<At>> = {}): Pages<Item<At>> {
  type Row = Item<At>;
  const { param = {}, nameOf = (row) => (row as { id: string }).id, about = ["action"], rowIn } = options;
  const load =
    options.load ?? ((cursor) => send("GET", at, { param, query: { limit: "50", ...query, cursor } }) as Promise<Result<Page<Row>>>);
  const depends = [at, JSON.stringify([param, query])];
  const list = useRef({ isReading: false });
  const restart = () => {
    list.current = { isReading: false };
  };
  useEffect(restart, depends);
  const { data, problem, again, hold } = useData<Page<Row>, Shown<Row>>(
    () => load(undefined),
    depends,
    (event) => {
      const changed = rowIn?.(event);
      const replaced = (rows: Row[]) => rows.map((row) => (changed && nameOf(row) === nameOf(changed) ? changed : row));
      if (changed) hold(({ data, ...rest }) => ({ ...rest, data: data && { ...data, rows: replaced(data.rows) } }));
      return typeof about === "function" ? about(event) : about.includes(event.kind);
    },
    { merge: (page, before) => joined(page, before, nameOf) },
  );
  const { rows, cursor, isTorn } = data ?? {};
  const more = async () => {
    const own = list.current;
    if (own.isReading) return;
    own.isReading = true;
    const next = await load(cursor ?? undefined);
    if (own !== list.current) return;
    own.isReading = false;
    hold(({ data }) => {
      if (!next.ok || !data) return { data, problem: next.ok ? undefined : next.problem };
      const known = new Set(data.rows.map(nameOf));
      const added = next.data.items.filter((row) => !known.has(nameOf(row)));
      return { data: { ...data, rows: [...data.rows, ...added], cursor: next.data.next_cursor, isGrown: true } };
    });
  };
  const newest = () => {
    restart();
    hold(() => ({}));
    again();
  };
  return { rows, problem, again, nameOf, more: cursor ? more : undefined, newest: isTorn ? newest : undefined };
}

/** Merges a reloaded first page with the shown rows. The page replaces the shown rows down to the last row that both contain. */
function joined<Row>({ items, next_cursor }: Page<Row>, shown: Shown<Row> | undefined, nameOf: (row: Row) => string): Shown<Row> {
  if (!shown?.isGrown) return { rows: items, cursor: next_cursor };
  if (shown.isTorn) return shown;
  const anew = new Set(items.map(nameOf));
  const reach = shown.rows.findLastIndex((row) => anew.has(nameOf(row)));
  if (reach < 0 && shown.rows.length > 0) return { ...shown, isTorn: true };
  return { ...shown, rows: [...items, ...shown.rows.slice(reach + 1)] };
}

/**
 * Follows the event stream of one instance while the instance is running and live updates are on, and calls `changed` for each event. When
 * the next run of the instance starts, the stream is opened again. Later changes of the instance arrive in the tenant's stream.
 */
export function useStream(path: string, isUnderWay: boolean, changed: () => void): void {
  const last = useRef({ id: "" });
  const isLive = useCell(live, ({ state }) => state === "live");
  const { token } = useCell(session);
  useEffect(() => {
    if (!isLive || !isUnderWay) return;
    const over = new AbortController();
    void follow({ path, over: over.signal, last: last.current, hear: (event) => event?.event && changed(), mayEnd: true });
    return () => over.abort();
  }, [path, isLive, isUnderWay, token]);
}

export function useShown(): { readonly current: boolean } {
  const isShown = useRef(true);
  useEffect(() => {
    isShown.current = true;
    return () => {
      isShown.current = false;
    };
  }, []);
  return isShown;
}

/** Loads the catalog when a screen is opened. The catalog is not loaded again after an event. */
export function useCatalog() {
  return useData(() => get("/v1/catalog"), []);
}

/** The longest list of causes that the API returns at once. */
const MOST_CAUSES = "200";

/** A cause of failed instances or of dead letters, as far as items with this cause are left. */
export function useCause<At extends "/v1/instances/causes" | "/v1/dead-letters/causes">(at: At, id: string): Item<At> | undefined {
  const { data } = useData<{ items: Item<At>[] } | undefined>(
    async () => (id ? (get(at, { query: { limit: MOST_CAUSES } as object }) as never) : { ok: true, data: undefined }),
    [at, id],
    ["instance", "skipped", "dead_letter", "action"],
  );
  return data?.items.find((one) => (one as { id: string }).id === id);
}
