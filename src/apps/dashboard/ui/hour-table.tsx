/** The hours of a chart as a table, the newest first. Long ranges are shown without the hours that have nothing. */
import { hourText } from '../data/hour-range.ts'
import { Soft, Table } from './layout.tsx'

/** A table of more hours would be mostly zeros. */
const maxHoursWithGaps = 48

export interface HourColumn<Hour> {
  name: string
  text: (hour: Hour) => string
}

export interface HourTableProps<Hour> {
  caption: string
  hours: readonly Hour[]
  columns: readonly HourColumn<Hour>[]
  isEmpty: (hour: Hour) => boolean
}

export function HourTable<Hour extends { hour_ts: string }>({
  caption,
  hours,
  columns,
  isEmpty,
}: HourTableProps<Hour>) {
  const isLong = hours.length > maxHoursWithGaps
  return (
    <>
      {isLong ? <Soft>Hours without activity are left out.</Soft> : null}
      <Table
        caption={caption}
        rows={(isLong ? hours.filter((hour) => !isEmpty(hour)) : [...hours]).reverse()}
        keyOf={(hour) => hour.hour_ts}
        columns={[
          {
            label: 'Hour',
            cell: ({ hour_ts }) => <time dateTime={hour_ts}>{hourText(Date.parse(hour_ts))}</time>,
          },
          ...columns.map(({ name, text }) => ({ label: name, cell: text, isNumber: true })),
        ]}
      />
    </>
  )
}
