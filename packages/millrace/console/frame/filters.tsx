import { useId, useLayoutEffect, useRef, useState } from "preact/hooks";
import { type Answer, type Asked, get, type Path } from "../data/api.ts";
import { Button } from "../parts/page.tsx";
import { begun, inWords } from "../parts/text.tsx";
import { setFilters, usePlace } from "./router.tsx";

export interface Filter {
  label: string;
  options?: Readonly<Record<string, string>>;
  /** Suggestions for a text filter, loaded when the user begins to type. */
  known?: () => Promise<readonly string[]>;
  unset?: string;
  /** The text of a value that is not among the options. Default: the value. */
  other?: string;
  /** True for a filter that is only shown if the URL sets the filter. */
  isRare?: boolean;
  /** The texts of values that differ from the values. */
  says?: Readonly<Record<string, string>>;
}

export type Filters = Readonly<Record<string, Filter>>;

/**
 * The filters of each list as its route declares them: the permitted values, or the type of a value. The build of the console reads them
 * from the operations of the API (`cli/local/console.ts`).
 */
declare const MILLRACE_FILTERS: Readonly<Record<string, Readonly<Record<string, string | readonly string[]>>>>;

/** How a screen shows a declared filter differently. False omits the filter. */
type Own = Partial<Filter> | false;
type NameOf<At extends Path> = Exclude<keyof Asked<At> & string, "cursor" | "limit" | "reveal">;

export const RARE = { isRare: true } as const;
export const ONE_CAUSE = { ...RARE, options: {}, other: "one cause" } as const;

const AGES: Readonly<Record<string, string>> = { "15m": "15 minutes", "1h": "1 hour", "24h": "24 hours", "7d": "7 days", "30d": "30 days" };
const YES_NO: Readonly<Record<string, string>> = { true: "yes", false: "no" };
/** Maximum number of values that a filter offers as options. More values are suggestions for a text. */
const MOST_OPTIONS = 12;

/** The filters that the route of a list declares. The filters in `own` come first. */
export function filtersOf<At extends Path>(at: At, own: { [Name in NameOf<At>]?: Own } = {}): Record<NameOf<At>, Filter> {
  const declared = MILLRACE_FILTERS[at] ?? {};
  const names = new Set([...Object.keys(own), ...Object.keys(declared)]);
  const shown = [...names].flatMap((name) => {
    const mine = (own as Record<string, Own>)[name] ?? {};
    return mine ? [[name, { label: begun(name), ...shownAs(name, declared[name], mine.says), ...mine }] as const] : [];
  });
  return Object.fromEntries(shown) as Record<NameOf<At>, Filter>;
}

/** Filters by a part of the deployment, with the names of these parts. */
const SUGGESTED: Readonly<Record<string, (catalog: Answer<"/v1/catalog">) => readonly string[]>> = {
  workflow: ({ workflows }) => workflows.map(({ name }) => name),
  type: ({ messages }) => messages.map(({ type }) => type),
  queue: ({ queues }) => queues.flatMap(({ name, is_lane }) => (is_lane ? [] : [name])),
  lane: ({ queues }) => queues.flatMap(({ name, is_lane }) => (is_lane ? [name] : [])),
};

export async function suggested(name: string): Promise<readonly string[]> {
  const catalog = await get("/v1/catalog");
  return (catalog.ok && SUGGESTED[name]?.(catalog.data)) || [];
}

function shownAs(name: string, declared: string | readonly string[] = "text", says: Filter["says"] = {}): Partial<Filter> {
  const optionsOf = (values: readonly string[], textOf: (value: string) => string) =>
    Object.fromEntries(values.map((value) => [value, says[value] ?? textOf(value)]));
  if (declared === "time") return { options: optionsOf(Object.keys(AGES), (age) => `${AGES[age]}${name === "until" ? " ago" : ""}`) };
  if (typeof declared === "string") return name in SUGGESTED ? { known: () => suggested(name) } : {};
  if (declared.length > MOST_OPTIONS) return { known: async () => declared };
  return { options: optionsOf(declared, (value) => YES_NO[value] ?? inWords(value)) };
}

/** The values of the filters in the URL. */
export function useFilters<F extends Filters>(filters: F): { [Name in keyof F]?: string } {
  const { query } = usePlace();
  return Object.fromEntries(Object.keys(filters).flatMap((name) => (query.get(name) ? [[name, query.get(name)]] : []))) as {
    [Name in keyof F]?: string;
  };
}

/** A text field of the filters. A new render does not change text that the user types. */
function TextFilter({ name, value, known }: { name: string; value: string; known: Filter["known"] }) {
  const field = useRef<HTMLInputElement>(null);
  const list = useId();
  const [names, setNames] = useState<readonly string[]>([]);
  const offer = async () => known && names.length === 0 && setNames(await known());
  // The value is set before the first paint, so that it does not overwrite text that the user types immediately.
  useLayoutEffect(() => {
    if (field.current) field.current.value = value;
  }, [value]);
  return (
    <>
      <input ref={field} name={name} type="text" autocomplete="off" spellcheck={false} placeholder="any" list={list} onFocus={offer} />
      <datalist id={list}>
        {names.map((one) => (
          <option key={one} value={one} />
        ))}
      </datalist>
    </>
  );
}

/** In a narrow window, a list with more filters than this number folds its filters. A filter that has a value remains visible. */
const FOLDED_FROM = 2;

export function FilterBar({ filters }: { filters: Filters }) {
  const set = useFilters(filters) as Record<string, string | undefined>;
  const [isOpen, open] = useState(false);
  const shown = Object.entries(filters).filter(([name, { isRare }]) => !isRare || set[name] !== undefined);
  if (shown.length === 0) return null;
  return (
    <form
      class="filters"
      aria-label="Filters"
      data-open={isOpen || undefined}
      onSubmit={(event) => event.preventDefault()}
      onChange={({ target }) => setFilters({ [(target as HTMLInputElement).name]: (target as HTMLInputElement).value.trim() })}
    >
      {shown.length > FOLDED_FROM && (
        <button type="button" class="unfold" aria-expanded={isOpen} onClick={() => open(!isOpen)}>
          {isOpen ? "Hide filters" : "Filters"}
        </button>
      )}
      {shown.map(([name, { label, options, unset = "any", other, known }]) => (
        // biome-ignore lint/a11y/noLabelWithoutControl: one of the two below is in it
        <label key={name} data-set={set[name] !== undefined || undefined}>
          {label}
          {options ? (
            <select name={name} value={set[name] ?? ""}>
              <option value="">{unset}</option>
              {/* A link may set the filter to a value that is not among the options, such as a time. */}
              {set[name] !== undefined && !Object.hasOwn(options, set[name]) && <option value={set[name]}>{other ?? set[name]}</option>}
              {Object.entries(options)
                .filter(([value]) => value !== unset)
                .map(([value, text]) => (
                  <option key={value} value={value}>
                    {text}
                  </option>
                ))}
            </select>
          ) : (
            <TextFilter name={name} value={set[name] ?? ""} known={known} />
          )}
        </label>
      ))}
      {Object.values(set).some(Boolean) && (
        <Button press={() => setFilters(Object.fromEntries(Object.keys(filters).map((name) => [name, undefined])))}>Clear</Button>
      )}
    </form>
  );
}
