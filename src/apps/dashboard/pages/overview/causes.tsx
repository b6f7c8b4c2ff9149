/**
 * The lanes that fail, are blocked or are behind, grouped by cause and server: what is wrong, what to do, and one button
 * that retries the lanes of a group.
 */
import { useState } from 'react'
import { Link } from 'wouter'
import type { Overview } from '../../../../contract/overview.ts'
import { needsAttention } from '../../../../contract/state-words.ts'
import { bytes, counted, duration } from '../../../../platform/quantities.ts'
import { type CauseGroup, canRetry, causeGroups, stateCounts } from '../../../client/lane-causes.ts'
import type { LaneOfPipe } from '../../../client/overview.ts'
import { useNow } from '../../data/clock.ts'
import { Button } from '../../ui/controls.tsx'
import { Cause, LaneLink, Since } from '../../ui/lane-words.tsx'
import { Soft } from '../../ui/layout.tsx'
import { RetryAll } from '../../ui/retry-all.tsx'
import { LaneState, Word } from '../../ui/state.tsx'
import { Outside } from '../../ui/text.tsx'
import styles from './causes.module.css'

/** The number of groups, and of lanes in each, before the user selects all. */
const groupsShown = 5
const lanesShown = 5

export function Causes({ overview }: { overview: Overview }) {
  const groups = causeGroups(overview)
  const [showsAll, setShowsAll] = useState(false)
  const all = groups.flatMap(({ lanes }) => lanes)
  const hidden = groups.length - groupsShown
  return (
    <section className={styles.causes} aria-label="Lanes with problems">
      {all.length > 1 ? <Summary lanes={all} hasGroups={groups.length > 1} /> : null}
      {(showsAll ? groups : groups.slice(0, groupsShown)).map((group) => (
        <Group key={group.key} group={group} />
      ))}
      {hidden > 0 ? (
        <div>
          <Button onClick={() => setShowsAll(!showsAll)}>
            {showsAll ? 'Show fewer causes' : `Show ${counted(hidden, 'more cause')}`}
          </Button>
        </div>
      ) : null}
    </section>
  )
}

/** `3 stuck  2 retrying`, each a link to these lanes. */
function Summary({ lanes, hasGroups }: { lanes: readonly LaneOfPipe[]; hasGroups: boolean }) {
  return (
    <div className={styles.summary}>
      {stateCounts(lanes).map(([word, found]) => (
        <Link key={word} to={`/lanes?state=${word}`}>
          <Word word={word} text={word === 'delivering' ? `${found} behind` : `${found} ${word}`} />
        </Link>
      ))}
      {hasGroups && lanes.filter(canRetry).length > 1 ? (
        <RetryAll lanes={lanes} label="Retry all failing" />
      ) : null}
    </div>
  )
}

function Group({ group }: { group: CauseGroup }) {
  const { cause, server, advice, lanes } = group
  const nowMs = useNow()
  const [first] = lanes
  if (first === undefined) return null
  const isUrgent = needsAttention(first.destination, nowMs)
  return (
    <article
      className={`${styles.group} ${isUrgent ? styles.urgent : ''}`}
      aria-label={`${cause} ${server}`.trim()}
    >
      <div className={styles.head}>
        <h2>
          <Outside text={cause} />
          {server === '' ? null : (
            <>
              {', '}
              <Outside text={server} />
            </>
          )}
          {lanes.length === 1 ? null : `, ${counted(lanes.length, 'lane')}`}
        </h2>
        <RetryAll lanes={lanes} label={lanes.length === 1 ? 'Retry' : 'Retry all'} />
      </div>
      <p>{advice}</p>
      <Lanes lanes={lanes} />
    </article>
  )
}

function Lanes({ lanes }: { lanes: readonly LaneOfPipe[] }) {
  const [showsAll, setShowsAll] = useState(false)
  const shown = showsAll ? lanes : lanes.slice(0, lanesShown)
  return (
    <>
      <ul className={styles.lanes}>
        {shown.map(({ pipe, destination }) => (
          <li key={destination.destination_id}>
            <LaneState destination={destination} />
            <LaneLink pipeId={pipe.pipe_id} pipeName={pipe.pipe_name} destination={destination} />
            <Soft>
              <Pending lane={destination.lane} />
            </Soft>
            {lanes.length === 1 ? <Details destination={destination} /> : null}
          </li>
        ))}
      </ul>
      {lanes.length > lanesShown ? (
        <div>
          <Button look="plain" onClick={() => setShowsAll(!showsAll)}>
            {showsAll ? 'Show fewer' : `Show ${counted(lanes.length - lanesShown, 'more lane')}`}
          </Button>
        </div>
      ) : null}
    </>
  )
}

/** The error itself, of a group with one lane. */
function Details({ destination }: Pick<LaneOfPipe, 'destination'>) {
  const { lane } = destination
  if (lane.lane_state === 'blocked' || lane.last_error === null) return null
  return (
    <div className={styles.details}>
      <Cause lane={lane} />{' '}
      <Soft>
        <Since lane={lane} />
      </Soft>
    </div>
  )
}

function Pending({ lane }: Pick<LaneOfPipe['destination'], 'lane'>) {
  if (lane.pending_messages === 0) return <>nothing is pending</>
  return (
    <>
      {counted(lane.pending_messages, 'message')} ({bytes(lane.pending_bytes)}) pending for{' '}
      {duration(lane.oldest_pending_age_seconds)}
    </>
  )
}
