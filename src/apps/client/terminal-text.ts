/** Wraps and truncates text by the columns that a terminal needs for it: CJK characters and most symbols take two. */
import stringWidth from 'string-width'

const segments = new Intl.Segmenter()

/** Wraps words. A word longer than `width` gets its own line, and is broken if it is longer than `most`. */
export function wrap(text: string, width: number, most = width): string[] {
  if (stringWidth(text) <= width) return [text]
  const lines: string[] = []
  let line = ''
  for (const word of text.split(' ')) {
    const longer = line === '' ? word : `${line} ${word}`
    if (stringWidth(longer) <= width) {
      line = longer
      continue
    }
    if (line !== '') lines.push(line)
    const pieces = broken(word, stringWidth(word) <= most ? most : width)
    // Each piece of the word except the last fills a line.
    lines.push(...pieces.slice(0, -1))
    line = pieces.at(-1) ?? ''
  }
  if (line !== '') lines.push(line)
  // The first line is next to the name of the value.
  if (stringWidth(lines[0] ?? '') > width) lines.unshift('')
  return lines
}

function broken(word: string, width: number): string[] {
  const pieces = ['']
  for (const { segment } of segments.segment(word)) {
    const longer = `${pieces.at(-1)}${segment}`
    if (stringWidth(longer) <= width || pieces.at(-1) === '') pieces[pieces.length - 1] = longer
    else pieces.push(segment)
  }
  return pieces
}

/** Truncates the text to `width` columns of a terminal, with `…` in place of the missing part. */
export function cut(text: string, width: number): string {
  if (stringWidth(text) <= width) return text
  let kept = ''
  for (const { segment } of segments.segment(text)) {
    if (stringWidth(kept + segment) > width - 1) break
    kept += segment
  }
  return `${kept}…`
}

export function cutInMiddle(text: string, width: number): string {
  if (stringWidth(text) <= width) return text
  const ofEnd = Math.floor((width - 1) / 2)
  let end = ''
  for (const { segment } of [...segments.segment(text)].reverse()) {
    if (stringWidth(segment + end) > ofEnd) break
    end = segment + end
  }
  return cut(text, width - stringWidth(end)) + end
}
