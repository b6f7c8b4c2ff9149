/** Finds what the user means from a few typed characters. Pure. */

/** How well the text matches: higher is better. Null: it does not match. */
export function fuzzyScore(wanted: string, text: string): number | null {
  let total = 0
  const lower = text.toLowerCase()
  for (const term of wanted.toLowerCase().split(/\s+/)) {
    if (term === '') continue
    const score = termScore(term, lower)
    if (score === null) return null
    total += score
  }
  // Among equal matches the shorter text is closer to what was typed.
  return total - text.length / 100
}

const wordStart = 8
const consecutive = 5
const wholeTerm = 20

function termScore(term: string, text: string): number | null {
  const at = bestIndex(term, text)
  if (at !== -1) return wholeTerm + term.length * consecutive + (isWordStart(text, at) ? wordStart : 0)
  // Otherwise its characters in their order, such as `odb` for orders/database.
  let score = 0
  let next = 0
  let last = -2
  for (const character of term) {
    const found = text.indexOf(character, next)
    if (found === -1) return null
    if (found === last + 1) score += consecutive
    if (isWordStart(text, found)) score += wordStart
    last = found
    next = found + 1
  }
  return score - (last - term.length) / 10
}

/** The first place at the start of a word, otherwise the first place. */
function bestIndex(term: string, text: string): number {
  const first = text.indexOf(term)
  for (let at = first; at !== -1; at = text.indexOf(term, at + 1)) if (isWordStart(text, at)) return at
  return first
}

function isWordStart(text: string, at: number): boolean {
  return at === 0 || !/[a-z0-9]/.test(text[at - 1] ?? '')
}

/** The best matches, at most `most` of them. An empty search keeps the order. */
export function bestMatches<Item>(
  items: readonly Item[],
  wanted: string,
  textOf: (item: Item) => string,
  most: number,
): Item[] {
  if (wanted.trim() === '') return items.slice(0, most)
  const scored = items.flatMap((item): { item: Item; score: number }[] => {
    const score = fuzzyScore(wanted, textOf(item))
    return score === null ? [] : [{ item, score }]
  })
  return scored
    .sort((a, b) => b.score - a.score)
    .slice(0, most)
    .map(({ item }) => item)
}
