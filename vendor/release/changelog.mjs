/**
 * CHANGELOG.md as data: its sections in the order of the file, and the notes of a release, which are one of them.
 *
 *   ## [1.0.0] - 2026-12-01        a release
 *   ## [Unreleased]                what the next one will contain; its date is null
 */

const heading = /^## \[([^\]]+)\](?: - (\d{4}-\d{2}-\d{2}))?$/gm

/** Returns `{ version, date, text }` of each section, newest first. `text` is Markdown without the heading. */
export function sectionsOf(changelog) {
  const headings = [...changelog.matchAll(heading)]
  return headings.map((found, index) => ({
    version: found[1],
    date: found[2] ?? null,
    text: changelog.slice(found.index + found[0].length, headings[index + 1]?.index).trim(),
  }))
}

/** The page that is published with a release. Links into the repository are written out: the page stands alone. */
export function releaseNotes({ version, date, text }) {
  const title = `# pipectl ${version}${date === null ? '' : ` (${date})`}`
  return `${title}\n\n${standalone(text)}\n`
}

/** The part that tells operators what to do before they upgrade, or null if there is none. */
export function beforeUpgrade(text) {
  const parts = text.split(/^### /m).slice(1)
  const part = parts.find((one) => /^(before you upgrade|upgrading)/i.test(one))
  return part === undefined ? null : standalone(part.slice(part.indexOf('\n')).trim())
}

function standalone(text) {
  return text.replaceAll(/\[([^\]]+)\]\((?!https?:)([^)]+)\)/g, '$1 ($2)')
}
