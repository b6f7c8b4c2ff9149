/** Compares two texts line by line. Pure. */

export interface DiffLine {
  kind: 'same' | 'removed' | 'added'
  text: string
}

/** Maximum number of lines that are compared, without the equal lines at both ends. */
const comparedLines = 1_500

/**
 * Every line of both texts. If more than the limit differ, everything between the first and last difference is shown
 * as replaced: time and memory of a comparison grow with the product of both counts.
 */
export function lineDiff(before: string, after: string): DiffLine[] {
  const a = before.split('\n')
  const b = after.split('\n')
  let start = 0
  while (start < a.length && start < b.length && a[start] === b[start]) start += 1
  let tail = 0
  while (
    tail < a.length - start &&
    tail < b.length - start &&
    a[a.length - 1 - tail] === b[b.length - 1 - tail]
  )
    tail += 1
  return [
    ...a.slice(0, start).map(line('same')),
    ...between(a.slice(start, a.length - tail), b.slice(start, b.length - tail)),
    ...a.slice(a.length - tail).map(line('same')),
  ]
}

/** The changed lines, each with up to `context` lines around it. Null marks omitted lines between two parts. */
export function changedParts(lines: readonly DiffLine[], context = 3): (DiffLine | null)[] {
  const isShown = lines.map(() => false)
  lines.forEach(({ kind }, index) => {
    if (kind === 'same') return
    const to = Math.min(lines.length - 1, index + context)
    for (let at = Math.max(0, index - context); at <= to; at += 1) isShown[at] = true
  })
  const shown: (DiffLine | null)[] = []
  lines.forEach((one, index) => {
    if (!isShown[index]) return
    if (shown.length > 0 && !isShown[index - 1]) shown.push(null)
    shown.push(one)
  })
  return shown
}

function between(a: readonly string[], b: readonly string[]): DiffLine[] {
  if (a.length > comparedLines || b.length > comparedLines)
    return [...a.map(line('removed')), ...b.map(line('added'))]
  const common = commonLengths(a, b)
  const lines: DiffLine[] = []
  let i = 0
  let j = 0
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      lines.push({ kind: 'same', text: a[i]! })
      i += 1
      j += 1
    } else if (j >= b.length || (i < a.length && common[i + 1]![j]! >= common[i]![j + 1]!)) {
      lines.push({ kind: 'removed', text: a[i]! })
      i += 1
    } else {
      lines.push({ kind: 'added', text: b[j]! })
      j += 1
    }
  }
  return lines
}

/** `[i][j]`: the length of the longest common subsequence of `a` from i and `b` from j. */
function commonLengths(a: readonly string[], b: readonly string[]): Uint16Array[] {
  const common = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1))
  for (let i = a.length - 1; i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) {
      common[i]![j] =
        a[i] === b[j] ? common[i + 1]![j + 1]! + 1 : Math.max(common[i + 1]![j]!, common[i]![j + 1]!)
    }
  }
  return common
}

function line(kind: DiffLine['kind']): (text: string) => DiffLine {
  return (text) => ({ kind, text })
}
