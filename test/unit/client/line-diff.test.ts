import t from 'tap'
import { changedParts, lineDiff } from '../../../src/apps/client/line-diff.ts'

const marks = { same: ' ', removed: '-', added: '+' } as const
const drawn = (before: string[], after: string[]) =>
  lineDiff(before.join('\n'), after.join('\n')).map(({ kind, text }) => marks[kind] + text)

t.test('lines that went and lines that came, in their place', async (t) => {
  t.same(drawn(['a', 'b', 'c'], ['a', 'B', 'c']), [' a', '-b', '+B', ' c'])
  t.same(drawn(['a', 'b', 'c', 'd'], ['b', 'c', 'x', 'd', 'e']), ['-a', ' b', ' c', '+x', ' d', '+e'])
  t.same(drawn(['a'], ['a']), [' a'])
  t.same(drawn(['a', 'a'], ['a']), [' a', '-a'])
})

t.test('texts too long to compare line by line are replaced between what both have', async (t) => {
  const many = (word: string) => Array.from({ length: 2_000 }, (_, at) => `${word}${at}`)
  const lines = lineDiff(['{', ...many('a'), '}'].join('\n'), ['{', ...many('b'), '}'].join('\n'))
  t.equal(lines.length, 4_002)
  t.same(
    [lines[0], lines[1], lines[2_001]],
    [
      { kind: 'same', text: '{' },
      { kind: 'removed', text: 'a0' },
      { kind: 'added', text: 'b0' },
    ],
  )
})

t.test('of a long text only what changed is shown, with the lines around it', async (t) => {
  const before = Array.from({ length: 30 }, (_, at) => String(at))
  const after = before.map((line) => (line === '5' || line === '25' ? `${line}!` : line))
  const parts = changedParts(lineDiff(before.join('\n'), after.join('\n')), 1)
  t.same(
    parts.map((one) => (one === null ? '…' : marks[one.kind] + one.text)),
    [' 4', '-5', '+5!', ' 6', '…', ' 24', '-25', '+25!', ' 26'],
  )
})
