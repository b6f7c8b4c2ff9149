/** The page of keys (`?`), and the line of keys at the bottom. */
import { Box, Text } from 'ink'

export const keyTable = [
  ['↑ ↓ j k', 'choose a pipe or lane'],
  ['enter', 'show it in full; esc: back'],
  ['s', 'skip the blocking message of a lane (asks)'],
  ['r', 'retry the blocking message now'],
  ['b', 'block the destination, or unblock it'],
  ['w', 'rewind the lane: earliest, a stream_seq or a time'],
  ['p', 'pause the pipe, or resume it'],
  ['/', 'filter by pipe name, state or kind'],
  ['?', 'these keys'],
  ['q', 'quit'],
] as const

export function KeysHelp({ height, readOnly }: { height: number; readOnly: boolean }) {
  return (
    <Box flexDirection="column" height={height}>
      {keyTable.slice(0, height - 1).map(([key, text]) => (
        <Text key={key} wrap="truncate">
          <Text bold>{`  ${key.padEnd(10)}`}</Text>
          {text}
        </Text>
      ))}
      {readOnly ? <Text color="yellow">{'  --read-only: s, r, b, w and p do nothing'}</Text> : null}
    </Box>
  )
}

export function keyLine(readOnly: boolean): string {
  const always = '? keys  q quit  ↑↓ choose  enter detail  / filter'
  return readOnly ? always : `${always}  s skip  r retry  b block  w rewind  p pause`
}
