/** The page that lists the keys (`?`), and the line of keys at the bottom. */
import { Box, Text } from 'ink'

const keyTable = [
  ['↑ ↓ j k', 'choose a pipe or lane'],
  ['Home End g G', 'the first line, the last line'],
  ['n', 'the next lane that needs attention'],
  ['enter', 'show it in full; esc: back'],
  ['s', 'skip (park) the blocking message of a lane, if a record is at fault (asks)'],
  ['r', 'retry the blocking message now, and wait for the result'],
  ['b', 'block the destination (asks), or unblock it'],
  ['w', 'rewind the lane: earliest, a stream_seq or a time'],
  ['p', 'pause the pipe, or resume it (asks)'],
  ['x', 'the parked records of a lane: enter shows one, r replays it,'],
  ['', 'd discards it (asks), R replays all (asks), esc goes back'],
  ['/', 'filter by name, state or kind'],
  ['a', 'show only lanes with problems, or all'],
  ['?', 'these keys'],
  ['q', 'quit'],
] as const

export function KeysHelp({ height, readOnly }: { height: number; readOnly: boolean }) {
  return (
    <Box flexDirection="column" height={height}>
      {keyTable.slice(0, height - 1).map(([key, text]) => (
        <Text key={text} wrap="truncate">
          <Text bold>{`  ${key.padEnd(13)}`}</Text>
          {text}
        </Text>
      ))}
      {readOnly ? <Text color="yellow">{'  --read-only: s, r, b, w, p, d and R do nothing'}</Text> : null}
    </Box>
  )
}

/** The keys that fit without truncation, actions first. 80 columns show them. `?` shows all. */
export function keyLine(readOnly: boolean, width: number, canSkip = true): string {
  const writing = [...(canSkip ? ['s skip'] : []), 'r retry', 'b block', 'x parked', 'w rewind', 'p pause']
  const first = ['? keys', 'q quit', ...(readOnly ? ['x parked'] : writing), '/ filter']
  return thoseThatFit([...first, 'n next', 'enter detail', 'a problems', '↑↓ choose'], width)
}

/** The same for the page of parked records. */
export function parkedKeyLine(readOnly: boolean, width: number): string {
  const always = ['esc back', '↑↓ choose', 'enter show']
  return thoseThatFit(readOnly ? always : [...always, 'r replay', 'd discard', 'R replay all'], width)
}

function thoseThatFit(all: readonly string[], width: number): string {
  const fits = all.filter((_, index) => all.slice(0, index + 1).join('  ').length <= width)
  return fits.join('  ')
}
