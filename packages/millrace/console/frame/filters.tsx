import { useId, useLayoutEffect, useRef, useState } from "preact/hooks";
import { Button } from "../parts/page.tsx";
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
}

export type Filters = Readonly<Record<string, Filter>>;

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
      <input
        ref={field}
        name={name}
        type="text"
        autocomplete="off"
        spellcheck={false}
        placeholder="any"
        {...(known && { list })}
        onFocus={offer}
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

/** In a narrow window, a list with more filters than this number folds its filters. A filter that has a value remains visible. */
const FOLDED_FROM = 2;

export function FilterBar({ filters }: { filters: Filters }) {
  const set = useFilters(filters) as Record<string, string | undefined>;
  const [isOpen, open] = useState(false);
  const shown = Object.entries(filters).filter(([name, { isRare }]) => !isRare || set[name] !== undefined);
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
        <Button press={() => setFilters(Object.fromEntries(Object.keys(filters).map((name) => [name, undefined])))}>Clear</Button>
      )}
    </form>
  );
}

export const SINCE = { "15m": "15 minutes", "1h": "1 hour", "24h": "24 hours", "7d": "7 days", "30d": "30 days" } as const;
