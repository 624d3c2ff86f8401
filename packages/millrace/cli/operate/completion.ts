import { Misuse } from "../command.ts";
import { COMMANDS } from "../names.js";
import { wantsHelp } from "../options.ts";
import { say } from "../terminal.ts";
import { COMMON, NO_VERB, type Verb } from "./arguments.ts";
import { NOUNS } from "./generic.ts";

const USAGE =
  "Usage: npx millrace completion bash|zsh|fish. Prints the completion of millrace, such as for: source <(npx millrace completion bash)";

/** The words that may follow each typed text: commands, nouns, verbs, options, and the values of an option. */
function followers(): [string, readonly string[]][] {
  const ofVerb = (typed: string, { options = {} }: Verb): [string, readonly string[]][] => [
    [typed, Object.keys({ ...options, ...COMMON }).map((name) => `--${name}`)],
    ...Object.entries(options).flatMap(([name, { values }]): [string, readonly string[]][] =>
      values ? [[`${typed} --${name}`, values]] : [],
    ),
  ];
  return [
    ["", [...Object.keys(COMMANDS), ...Object.keys(NOUNS)]],
    ["completion", Object.keys(SHELLS)],
    ...Object.entries(NOUNS).flatMap(([noun, verbs]): [string, readonly string[]][] => [
      ...(NO_VERB in verbs ? [] : [[noun, Object.keys(verbs)] as [string, string[]]]),
      ...Object.entries(verbs).flatMap(([name, verb]) => ofVerb([noun, name].filter(Boolean).join(" "), verb)),
    ]),
  ];
}

/** Shell functions that print the possible next words, by the longest known part of the input: noun, verb and option. */
const posix = () => `_millrace_words() {
  case "$1" in
${followers()
  .map(([typed, words]) => `  "${typed}") echo "${words.join(" ")}" ;;`)
  .join("\n")}
  esac
}
_millrace_at() {
  local last found
  for last in "$@"; do :; done
  found=$(_millrace_words "$1 $2 $last")
  [ -n "$found" ] || found=$(_millrace_words "$1 $2")
  [ -n "$found" ] || found=$(_millrace_words "$1")
  echo "$found"
}`;

const SHELLS: Readonly<Record<string, () => string>> = {
  bash: () => `${posix()}
_millrace() {
  COMPREPLY=($(compgen -W "$(_millrace_at "\${COMP_WORDS[@]:1:COMP_CWORD-1}")" -- "\${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _millrace millrace`,
  zsh: () => `#compdef millrace
${posix()}
_millrace() {
  compadd -- \${=$(_millrace_at "\${(@)words[2,CURRENT-1]}")}
}
compdef _millrace millrace`,
  fish: () => `function __millrace_words
  switch "$argv"
${followers()
  .map(([typed, words]) => `    case "${typed}"\n      printf '%s\\n' ${words.join(" ")}`)
  .join("\n")}
  end
end
function __millrace_at
  set -l found (__millrace_words $argv[1..2] $argv[-1])
  test -n "$found"; or set found (__millrace_words $argv[1..2])
  test -n "$found"; or set found (__millrace_words $argv[1])
  printf '%s\\n' $found
end
complete -c millrace -f -a '(__millrace_at (commandline -opc)[2..-1])'`,
};

export function completion(args: readonly string[]): number {
  const script = SHELLS[args[0] ?? ""];
  if (wantsHelp(args)) say(USAGE);
  else if (script === undefined || args.length > 1) throw new Misuse(USAGE);
  else say(script());
  return 0;
}
