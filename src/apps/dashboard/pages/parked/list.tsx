/** Lists the parked records of a lane, with a filter by error code and reason. */
import { useState } from 'react'
import type { ParkedRecord } from '../../../../contract/parked.ts'
import { counted } from '../../../../platform/quantities.ts'
import { command } from '../../../client/cli-twin.ts'
import type { ParkedFilter } from '../../../client/parked.ts'
import type { LaneRef } from '../../../client/workspace.ts'
import { isNotFound } from '../../data/api.ts'
import { Button, Choice, formStyles, TextField } from '../../ui/controls.tsx'
import { Loading } from '../../ui/failure.tsx'
import { CliTwin, Empty, Page, Section, Soft } from '../../ui/layout.tsx'
import { Gone } from '../pipe/crumbs.tsx'
import { LaneCrumb, useLane, useReference } from './crumbs.tsx'
import styles from './parked.module.css'
import { type ParkedPageData, useParkedPage } from './queries.ts'
import { ParkedRecords } from './records.tsx'

interface FilterTexts {
  code: string
  reason: 'all' | ParkedRecord['reason']
}

export function ParkedListPage(place: LaneRef) {
  const [texts, setTexts] = useState<FilterTexts>({ code: '', reason: 'all' })
  const [after, setAfter] = useState<string | null>(null)
  const filter = filterOf(texts)
  const { data, error } = useParkedPage(place, filter, after)
  if (isNotFound(error)) return <Gone what="destination" />
  return (
    <Page title="Parked" name="Parked records" crumbs={<LaneCrumb place={place} />}>
      <Introduction place={place} />
      <Filter
        texts={texts}
        onChange={(changed) => {
          setTexts({ ...texts, ...changed })
          setAfter(null)
        }}
      />
      {data === undefined ? (
        <Loading error={error} />
      ) : (
        <List place={place} page={data} filter={filter} after={after} onAfter={setAfter} />
      )}
    </Page>
  )
}

function filterOf({ code, reason }: FilterTexts): ParkedFilter {
  return {
    ...(code.trim() !== '' && { error_code: code.trim() }),
    ...(reason !== 'all' && { reason }),
  }
}

function Introduction({ place }: { place: LaneRef }) {
  const total = useLane(place)?.lane.parked_records ?? null
  return (
    <Soft>
      Records that the destination rejected permanently, or that were skipped, are kept here while the lane
      continues. You can correct and replay them.{' '}
      {total === null
        ? null
        : `${counted(total, 'record')} of this lane ${total === 1 ? 'is' : 'are'} parked.`}
    </Soft>
  )
}

interface FilterProps {
  texts: FilterTexts
  onChange: (changed: Partial<FilterTexts>) => void
}

function Filter({ texts, onChange }: FilterProps) {
  return (
    <div className={styles.filters}>
      <TextField label="Error code" value={texts.code} mono onValue={(code) => onChange({ code })} />
      <Choice
        label="Reason"
        value={texts.reason}
        options={[
          ['all', 'rejected or skipped'],
          ['permanent_error', 'rejected'],
          ['skipped', 'skipped'],
        ]}
        onValue={(reason) => onChange({ reason })}
      />
    </div>
  )
}

interface ListProps {
  place: LaneRef
  page: ParkedPageData
  filter: ParkedFilter
  /** Null: the first page. */
  after: string | null
  onAfter: (after: string | null) => void
}

function List({ place, page, filter, after, onAfter }: ListProps) {
  const { parked, next } = page
  return (
    <Section title="In message order">
      {parked.length === 0 ? (
        <NothingParked isFiltered={Object.keys(filter).length > 0} />
      ) : (
        <ParkedRecords place={place} parked={parked} errorCode={filter.error_code} />
      )}
      <div className={formStyles.actions}>
        {after === null ? null : <Button onClick={() => onAfter(null)}>First page</Button>}
        {next === null ? null : <Button onClick={() => onAfter(next)}>Next page</Button>}
      </div>
      <ListCommand place={place} filter={filter} />
    </Section>
  )
}

function NothingParked({ isFiltered }: { isFiltered: boolean }) {
  return (
    <Empty title="Nothing is parked">
      <p>{isFiltered ? 'No record matches the filter.' : 'This lane has no rejected or skipped records.'}</p>
    </Empty>
  )
}

function ListCommand({ place, filter }: Pick<ListProps, 'place' | 'filter'>) {
  const reference = useReference(place)
  const { error_code: code, reason } = filter
  return (
    <CliTwin
      command={command(
        ...['parked', 'list', reference],
        ...(code === undefined ? [] : ['--error-code', code]),
        ...(reason === undefined ? [] : ['--reason', reason]),
      )}
    />
  )
}
