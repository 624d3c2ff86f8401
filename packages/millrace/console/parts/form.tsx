import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { choicesOf, controlFor, exampleOf, helpOf, isNullable, itemsOf, opened, type Schema } from "../data/schema.ts";
import { jsonText, Written, writtenJson, writtenNumber } from "../data/written.ts";
import { Button } from "./page.tsx";
import { exact, instant, marked, Quiet, timeZone } from "./text.tsx";
import "./form.css";

export interface Told {
  issues: ReadonlyMap<string, string>;
  /** True if the form also shows the issues of fields that the user has not edited. */
  isAll: boolean;
}

interface FieldsProps {
  schema: Schema;
  value: unknown;
  set: (value: unknown) => void;
  path?: string;
  told: Told;
}

interface FieldProps extends FieldsProps {
  name: string;
  isRequired: boolean;
  path: string;
}

/** The fields of an object. `path` is the object's path in the issues, without a path for the whole body of a request. */
export function Fields({ schema, value, set, path = "", told }: FieldsProps) {
  const { properties = {}, required = [] } = opened(schema);
  const held = (typeof value === "object" && value !== null && !Array.isArray(value) ? value : {}) as Record<string, unknown>;
  const change = (name: string, next: unknown) => {
    const { [name]: _, ...rest } = held;
    set(next === undefined ? rest : { ...held, [name]: next });
  };
  const others = Object.keys(held).filter((name) => !Object.hasOwn(properties, name));
  const known = Object.entries(properties).filter(([, { not }]) => not === undefined);
  const fields: [string, Schema][] = [...known, ...others.map((name): [string, Schema] => [name, {}])];
  return (
    <>
      {fields.map(([name, one]) => (
        <Field
          key={name}
          {...{ name, told, schema: one, value: held[name], path: path ? `${path}.${name}` : name }}
          set={(next) => change(name, next)}
          isRequired={required.includes(name)}
        />
      ))}
    </>
  );
}

function Field(given: FieldProps) {
  const { schema, path, told, isRequired, value } = given;
  const name = given.name.replaceAll("_", " ");
  // The control is chosen only once, so that it does not change while the user types.
  const [control] = useState(() => controlFor(schema, value));
  const [isTouched, touch] = useState(false);
  const set = (next: unknown) => {
    touch(true);
    given.set(next);
  };
  const said = told.isAll || isTouched ? [...told.issues].find(([at]) => at === path || at.startsWith(`${path}.`))?.[1] : undefined;
  const issue = value instanceof Written && control === "number" ? (value.wrong ?? said) : said;
  const props = { ...given, name, set, issue };
  if (control === "json") return <AnyJson {...props} />;
  if (control === "check") {
    const isSet = value === undefined ? opened(schema).default === true : value === true;
    return <Check label={[name, " ", <Hint key="hint" schema={schema} isRequired />]} isSet={isSet} set={set} />;
  }
  const isGroup = control === "group" || control === "list" || control === "choices";
  const inner = isGroup ? (
    <fieldset class="form-group">
      <legend>
        {name} <Hint {...props} />
      </legend>
      {value === null ? (
        <p class="quiet">null</p>
      ) : control === "list" ? (
        <Items {...props} />
      ) : control === "choices" ? (
        <Choices {...props} />
      ) : !isRequired && value === undefined ? (
        <Button press={() => set(exampleOf(opened(schema)))}>Add {name}</Button>
      ) : (
        <Fields {...{ schema, value, set, path, told }} />
      )}
      {control !== "group" && issue && <p class="wrong">{marked(issue)}</p>}
    </fieldset>
  ) : (
    // biome-ignore lint/a11y/noLabelWithoutControl: it is in Control
    <label class="field">
      <span>
        {name} <Hint {...props} />
      </span>
      <Control {...props} control={control} />
      {issue && <span class="wrong">{marked(issue)}</span>}
    </label>
  );
  if (!isNullable(schema) || opened(schema).enum?.includes(null)) return inner;
  const turn = () => set(value !== null ? null : isRequired ? exampleOf(opened(schema)) : undefined);
  return (
    <>
      {inner}
      <Check label={`${name} is null`} isSet={value === null} set={turn} />
    </>
  );
}

/** The help for a field. Its control shows the type, except for JSON. */
function Hint({ schema, isRequired }: Pick<FieldProps, "schema" | "isRequired">) {
  const control = controlFor(schema, undefined);
  const help = helpOf(control === "choice" || control === "check" ? { ...schema, default: undefined } : schema);
  const said = [!isRequired && "optional", control === "json" && "JSON", control === "time" && `time zone ${timeZone()}`, help];
  return <span class="quiet form-hint">{marked(said.filter(Boolean).join(" · "))}</span>;
}

type ControlProps = FieldProps & { issue: string | undefined };

function Choices({ schema, value, set }: FieldProps) {
  const chosen: readonly unknown[] = Array.isArray(value) ? value : [];
  const turn = (one: unknown) => {
    const next = chosen.includes(one) ? chosen.filter((other) => other !== one) : [...chosen, one];
    set(next.length > 0 ? next : undefined);
  };
  return (
    <>
      {choicesOf(itemsOf(schema) ?? {}).map(({ const: one, description = "" }) => (
        <Check
          key={String(one)}
          label={[String(one), " ", <Quiet key="means" of={description} />]}
          isSet={chosen.includes(one)}
          set={() => turn(one)}
        />
      ))}
    </>
  );
}

function Items({ name, schema, value, set, isRequired, path, told }: FieldProps) {
  const of = itemsOf(schema) ?? {};
  const items = Array.isArray(value) ? value : [];
  const removeAt = (at: number) => set(items.length === 1 && !isRequired ? undefined : items.toSpliced(at, 1));
  return (
    <>
      {items.map((one, at) => (
        <div class="form-item" key={`${at} of ${items.length}`}>
          <Field
            {...{ name: `${name} ${at + 1}`, schema: of, value: one, path: `${path}.${at}`, told, isRequired: true }}
            set={(next) => set(items.with(at, next ?? null))}
          />
          <Button class="plain" label={`Remove ${name} ${at + 1}`} press={() => removeAt(at)}>
            Remove
          </Button>
        </div>
      ))}
      <Button press={() => set([...items, exampleOf(of)])}>Add {items.length === 0 ? "one" : "another"}</Button>
    </>
  );
}

/** Maximum length of a text in a field of one line, unless the schema of the text has a pattern or a format. */
const SHORT = 200;

function Control({ control, schema, value, set, isRequired, issue }: ControlProps & { control: string }) {
  const said = opened(schema);
  const wrong = issue !== undefined || undefined;
  const mayLack = !isRequired && said.default === undefined;
  const { pattern, format, maxLength = Number.POSITIVE_INFINITY } = said;
  const [isLong] = useState(() => String(value).includes("\n") || !(pattern || format || maxLength <= SHORT));
  if (control === "choice")
    return (
      <select
        aria-invalid={wrong}
        value={JSON.stringify(value) ?? ""}
        onChange={({ currentTarget: { value: text } }) => set(text === "" ? undefined : JSON.parse(text))}
      >
        {(value === undefined || mayLack) && <option value="">{isRequired ? "choose" : "leave it out"}</option>}
        {(said.enum ?? [true, false]).map((one) => (
          <option key={JSON.stringify(one)} value={JSON.stringify(one)}>
            {one === true ? "yes" : one === false ? "no" : String(one).replaceAll("_", " ")}
          </option>
        ))}
      </select>
    );
  const example = said.default ?? said.examples?.[0];
  const common = {
    ...{ "aria-invalid": wrong, autocomplete: "off", spellcheck: false, disabled: value === null },
    placeholder: value === null ? "null" : example === undefined ? undefined : String(example),
  } as const;
  if (control === "number")
    return (
      <input
        {...common}
        type="text"
        inputMode="decimal"
        value={value instanceof Written ? value.text : typeof value === "number" ? String(value) : ""}
        onInput={({ currentTarget: { value: text } }) => set(text.trim() === "" ? undefined : writtenNumber(text))}
      />
    );
  if (control === "time") return <Time {...common} value={value} set={set} />;
  const text = typeof value === "string" ? value : "";
  const change = ({ currentTarget }: { currentTarget: { value: string } }) =>
    set(currentTarget.value === "" && !isRequired ? undefined : currentTarget.value);
  return isLong ? (
    <textarea {...common} class="form-long" rows={1} value={text} onInput={change} />
  ) : (
    <input {...common} type="text" value={text} onInput={change} />
  );
}

function AnyJson({ name, schema, value, set, isRequired, issue }: ControlProps) {
  return (
    <>
      <JsonField
        label={[name, " ", <Hint key="hint" schema={{ description: helpOf(schema) }} isRequired={isRequired} />]}
        text={value === undefined ? "" : jsonText(value, "  ")}
        change={(text) => set(text.trim() === "" ? undefined : writtenJson(text))}
        mayBeEmpty
      />
      {issue && <p class="wrong">{marked(issue)}</p>}
    </>
  );
}

/** A field for a time, shown in the time zone of the page. */
function Time({ value, set, ...rest }: { value: unknown; set: (value: string | undefined) => void }) {
  const change = (text: string) => set(text === "" ? undefined : new Date(instant(text)).toISOString());
  const text = typeof value === "string" ? exact(value).replace(" ", "T") : "";
  return <input {...rest} type="datetime-local" step="1" value={text} onInput={(event) => change(event.currentTarget.value)} />;
}

export function Check({ label, isSet, set }: { label: ComponentChildren; isSet: boolean; set: (isSet: boolean) => void }) {
  return (
    <label class="check">
      <input type="checkbox" checked={isSet} onChange={() => set(!isSet)} /> <span>{label}</span>
    </label>
  );
}

interface JsonFieldProps {
  label: ComponentChildren;
  text: string;
  change: (text: string) => void;
  mayBeEmpty?: boolean;
}

export function JsonField({ label, text, change, mayBeEmpty = false }: JsonFieldProps) {
  const { wrong } = writtenJson(text);
  return (
    <label class="field">
      <span>{label}</span>
      <textarea class="code" value={text} spellcheck={false} onInput={(event) => change(event.currentTarget.value)} />
      {wrong && !(mayBeEmpty && text.trim() === "") && <span class="wrong">{wrong}</span>}
    </label>
  );
}
