/**
 * The type of an output after JSON. A type that JSON changes becomes a literal type with the compiler's error message. `packOutput` refuses
 * at run time the values that the compiler cannot detect by their type. A generic function that wraps a step declares `Stored<T>` for its
 * type parameter `T`.
 */
export type Stored<T> = unknown extends T
  ? T
  : // biome-ignore lint/suspicious/noConfusingVoidType: what a function without a return answers
    T extends string | number | boolean | null | undefined | void
    ? T
    : T extends bigint
      ? "JSON has no bigint: return its toString()"
      : T extends symbol | Callable
        ? "JSON has no functions and no symbols: return plain data"
        : T extends Date
          ? "A Date comes back from JSON as text: return its toISOString() or getTime()"
          : T extends ReadonlyMap<unknown, unknown> | ReadonlySet<unknown>
            ? "A Map or a Set is {} in JSON: return [...it]"
            : T extends PromiseLike<unknown>
              ? "A promise is {} in JSON: await it"
              : T extends readonly unknown[]
                ? { [K in keyof T]: Stored<T[K]> }
                : MethodOf<T> extends never
                  ? { [K in keyof T]: K extends symbol ? T[K] : Stored<T[K]> }
                  : "JSON keeps no methods: return plain data instead of an object of a class";

type Callable = (...args: never) => unknown;

/** Names of an object's methods. Symbol keys are excluded, because JSON omits them. */
type MethodOf<T> = { [K in keyof T]-?: K extends symbol ? never : Extract<T[K], Callable> extends never ? never : K }[keyof T];
