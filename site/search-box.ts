import type { Plugin } from "vite";

/**
 * Replacements in the code of the theme's search box, because axe-core refuses the roles in that code. The new roles are a dialog, a
 * combobox and the combobox's options.
 */
const PIECES: readonly (readonly [theirs: string, ours: string])[] = [
  [
    `role="button"
      :aria-owns="results?.length ? 'localsearch-list' : undefined"
      aria-expanded="true"
      aria-haspopup="listbox"
      aria-labelledby="localsearch-label"
      class="VPLocalSearchBox"`,
    `role="dialog" aria-modal="true" aria-label="Search" class="VPLocalSearchBox"`,
  ],
  [
    `aria-labelledby="localsearch-label"
            autocapitalize`,
    `role="combobox" aria-label="Search" :aria-expanded="results?.length ? 'true' : 'false'" autocapitalize`,
  ],
  [`:aria-labelledby="results?.length ? 'localsearch-label' : undefined"`, `:aria-label="results?.length ? 'Results' : undefined"`],
  [
    `:id="'localsearch-item-' + index"
            :aria-selected="selectedIndex === index ? 'true' : 'false'"
            role="option"`,
    `role="presentation"`,
  ],
  [
    `:aria-label="[...p.titles, p.title].join(' > ')"`,
    `:id="'localsearch-item-' + index" :aria-selected="selectedIndex === index ? 'true' : 'false'" role="option"`,
  ],
  ...["navigateUp", "navigateDown", "select", "close"].map((key) => {
    const label = `:aria-label="translate('modal.footer.${key}KeyAriaLabel')"`;
    return [label, `role="img" ${label}`] as const;
  }),
  [`<span class="title-icon">`, `<span class="title-icon" aria-hidden="true">`],
];

/**
 * Replaces the roles in the code of the theme's search box. Throws if the installed version of the theme does not contain the replaced
 * code.
 */
export const searchBox: Plugin = {
  name: "search-box",
  enforce: "pre",
  transform(code, id) {
    if (!id.endsWith("/VPLocalSearchBox.vue")) return;
    return PIECES.reduce((text, [theirs, ours]) => {
      if (text.split(theirs).length !== 2)
        throw new Error(`VPLocalSearchBox.vue has not exactly one ${theirs}. Change site/search-box.ts.`);
      return text.replace(theirs, ours);
    }, code);
  },
};
