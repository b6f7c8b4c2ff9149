/** The first line: the daemon, how much it has, and whether anything needs attention. */
import { Text } from 'ink'
import type { AlertsShown } from '../../contract/alerts.ts'
import { needAttention, needsAttention } from '../../contract/state-words.ts'
import { count, counted } from '../../platform/quantities.ts'
import { areAlertsFailing } from '../client/alerts.ts'
import { printable } from '../client/printable.ts'
import type { Feed } from './use-snapshot.ts'

export function Header(props: {
  url: string
  feed: Feed
  alerts: AlertsShown | null
  readOnly: boolean
  wiped: number
}) {
  const { snapshot, staleBecause } = props.feed
  const nowMs = Date.parse(snapshot?.server_ts ?? '')
  const lanes = snapshot?.pipes.flatMap((one) => one.lanes) ?? []
  const stale = lanes.filter((one) => one.lane.stale === true).length
  const troubled = lanes.filter((one) => needsAttention(one, nowMs)).length
  const pending = snapshot?.pipes.reduce((sum, one) => sum + one.pending_messages, 0) ?? 0
  return (
    <Text wrap="truncate">
      <Text bold>pipectl</Text>
      {/* A space of another kind every second time; see `wiped`. */}
      {props.wiped % 2 === 0 ? ' ' : '\u00a0'}
      {staleBecause === null ? null : (
        <Text inverse color="red">
          {' STALE '}
        </Text>
      )}
      {staleBecause === null ? null : <Text color="red">{` ${staleBecause} `}</Text>}
      {props.readOnly ? <Text color="yellow">[read-only] </Text> : null}
      {`${props.url}  ${counted(snapshot?.pipes.length ?? 0, 'pipe')}  ${counted(lanes.length, 'lane')}  `}
      <Text color={troubled > 0 ? 'red' : 'green'}>{needAttention(troubled)}</Text>
      {`  ${count(pending)} pending`}
      <AlertsWord alerts={props.alerts} />
      {stale === 0 ? null : <Text color="yellow">{`  ${stale} stale: delivery does not respond`}</Text>}
    </Text>
  )
}

/** Short where all is well: a narrow terminal cuts the line. */
function AlertsWord({ alerts }: { alerts: AlertsShown | null }) {
  if (alerts === null) return null
  if (alerts.alerts === null) return <Text dimColor>{'  no alerts'}</Text>
  const failure = areAlertsFailing(alerts) ? alerts.status?.last_failure : null
  if (!failure) return <Text dimColor>{'  alerts on'}</Text>
  return <Text color="yellow">{`  alerts not sent: ${printable(failure.message)}`}</Text>
}
