/** All lanes of the workspace, with a search and a filter by state. */
import { memo, useDeferredValue, useMemo } from 'react'
import { type LaneWord, laneWord } from '../../../../contract/state-words.ts'
import { command } from '../../../client/cli-twin.ts'
import type { LaneOfPipe } from '../../../client/overview.ts'
import { useParam, useSetParams } from '../../data/address.ts'
import { useOverview } from '../../data/overview.ts'
import { formStyles } from '../../ui/controls.tsx'
import { Choice } from '../../ui/fields.tsx'
import { CliTwin, Empty, Page, Section, Skeleton } from '../../ui/layout.tsx'
import { useSearchField } from '../../ui/search-field.tsx'
import { LaneTable } from './lane-table.tsx'

const failing = 'failing'
const states: readonly (readonly [LaneWord | typeof failing | '', string])[] = [
  ['', 'all'],
  [failing, 'stuck or retrying'],
  ['stuck', 'stuck'],
  ['retrying', 'retrying'],
  ['blocked', 'blocked'],
  ['delivering', 'delivering'],
  ['idle', 'idle'],
]

export function LanesPage() {
  const given = useParam('state')
  const state = states.find(([one]) => one === given)?.[0] ?? ''
  const setParams = useSetParams()
  const { text, field } = useSearchField({ placeholder: 'pipe, destination, server or error' })
  const wanted = useDeferredValue(text.trim().toLowerCase())
  return (
    <Page title="Lanes" name="Lanes">
      <div className={formStyles.pair}>
        {field}
        <Choice
          label="State"
          value={state}
          options={states}
          onValue={(next) => setParams({ state: next, page: null })}
        />
      </div>
      <Results state={state} wanted={wanted} />
    </Page>
  )
}

type State = (typeof states)[number][0]

/** Not rendered with every key press: the field must not wait for the table. */
const Results = memo(function Results({ state, wanted }: { state: State; wanted: string }) {
  const pipes = useOverview().data?.pipes
  const lanes = useMemo(
    () =>
      (pipes ?? [])
        .flatMap((pipe) => pipe.lanes.map((destination) => ({ pipe, destination })))
        .filter((lane) => hasState(lane, state) && matches(lane, wanted)),
    [pipes, state, wanted],
  )
  const isFiltered = state !== '' || wanted !== ''
  if (pipes === undefined) return <Skeleton />
  if (lanes.length === 0) {
    return (
      <Empty title={isFiltered ? 'No lane matches' : 'No destinations yet'}>
        <p>A lane is the position of a destination in its pipe: what it has received, and what waits.</p>
      </Empty>
    )
  }
  return (
    <Section title={isFiltered ? 'Matching lanes' : 'All lanes'}>
      <LaneTable caption="Lanes" lanes={lanes} showsPipe />
      <CliTwin command={command('lanes', 'list', state === failing && '--blocked')} />
    </Section>
  )
})

function hasState({ destination }: LaneOfPipe, state: State): boolean {
  const word = laneWord(destination)
  if (state === failing) return word === 'stuck' || word === 'retrying'
  return state === '' || word === state
}

function matches({ pipe, destination }: LaneOfPipe, wanted: string): boolean {
  const texts = [
    `${pipe.pipe_name}/${destination.destination_name}`,
    destination.destination_target,
    destination.destination_server,
    destination.destination_type,
    destination.lane.last_error?.message ?? '',
    destination.lane.last_error?.code ?? '',
    laneWord(destination),
  ]
  return texts.some((text) => text.toLowerCase().includes(wanted))
}
