import { useId, useLayoutEffect, useRef, useState } from "preact/hooks";
import { timeNow } from "../data/clock.ts";
import { setFilters, usePlace } from "./router.tsx";

/** A filter of a list, which stands in the URL under its name. */
export interface Filter {
  label: string;
  /** What it can be, by value, where that is known; otherwise any text. */
  options?: Readonly<Record<string, string>>;
  /** Names that it is probably one of, where it is any text: asked for when somebody begins to type. */
  known?: () => Promise<readonly string[]>;
  /** What is meant where it is not set. Default `any`. */
  unset?: string;
  /** True for one that is shown only where it is set, by a link perhaps. */
  isRare?: boolean;
}

export type Filters = Readonly<Record<string, Filter>>;

/** What of a screen's filters is set. */
export function useFilters<F extends Filters>(filters: F): { [Name in keyof F]?: string } {
  const { query } = usePlace();
  return Object.fromEntries(Object.keys(filters).flatMap((name) => (query.get(name) ? [[name, query.get(name)]] : []))) as {
    [Name in keyof F]?: string;
  };
}

/** A field whose text counts once it is finished: what is typed stays, whatever is drawn meanwhile. */
function TextFilter({ name, value, known }: { name: string; value: string; known: Filter["known"] }) {
  const field = useRef<HTMLInputElement>(null);
  const list = useId();
  const [names, setNames] = useState<readonly string[]>([]);
  const offer = async () => known && names.length === 0 && setNames(await known());
  // Before anything is painted: what somebody types at once is not written over.
  useLayoutEffect(() => {
    if (field.current) field.current.value = value;
  }, [value]);
  const finish = (text: string) => text.trim() !== value && setFilters({ [name]: text.trim() });
  return (
    <>
      <input
        ref={field}
        type="text"
        autocomplete="off"
        spellcheck={false}
        placeholder="any"
        {...(known && { list })}
        onFocus={offer}
        onChange={(event) => finish(event.currentTarget.value)}
        onKeyDown={(event) => event.key === "Enter" && finish(event.currentTarget.value)}
      />
      {known && (
        <datalist id={list}>
          {names.map((one) => (
            <option key={one} value={one} />
          ))}
        </datalist>
      )}
    </>
  );
}

/** A screen's filters: those that are set can be told from those that are not, and Clear takes them all away. */
export function FilterBar({ filters }: { filters: Filters }) {
  const set = useFilters(filters) as Record<string, string | undefined>;
  const shown = Object.entries(filters).filter(([name, { isRare }]) => !isRare || set[name] !== undefined);
  return (
    <form class="filters" aria-label="Filters" onSubmit={(event) => event.preventDefault()}>
      {shown.map(([name, { label, options, unset = "any", known }]) => (
        // biome-ignore lint/a11y/noLabelWithoutControl: one of the two below is in it
        <label key={name} data-set={set[name] !== undefined || undefined}>
          {label}
          {options ? (
            <select value={set[name] ?? ""} onChange={(event) => setFilters({ [name]: event.currentTarget.value })}>
              <option value="">{unset}</option>
              {/* What a link brought that is none of them, such as a moment. */}
              {set[name] !== undefined && !Object.hasOwn(options, set[name]) && <option value={set[name]}>{set[name]}</option>}
              {Object.entries(options).map(([value, text]) => (
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
        <button type="button" onClick={() => setFilters(Object.fromEntries(Object.keys(filters).map((name) => [name, undefined])))}>
          Clear
        </button>
      )}
    </form>
  );
}

/** Ages for a filter of time. */
export const SINCE = { "15m": "15 minutes", "1h": "1 hour", "24h": "24 hours", "7d": "7 days", "30d": "30 days" } as const;

const UNITS = { m: 60_000, h: 3_600_000, d: 86_400_000 } as const;

/** The moment that an age of `SINCE` stands for, to the minute, as the API takes it; a moment stays as it is. */
export function sinceOf(age: string | undefined): string | undefined {
  const [, count, unit] = /^(\d+)([mhd])$/.exec(age ?? "") ?? [];
  if (!count) return age;
  const at = timeNow() - Number(count) * UNITS[unit as keyof typeof UNITS];
  return new Date(Math.max(0, Math.floor(at / 60_000) * 60_000)).toISOString();
}
