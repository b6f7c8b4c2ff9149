/** Collects the errors of records that do not match a schema: the first records, and all errors by path. Pure. */

export const checkLimits = {
  /** Records that are shown with their errors. */
  shownRecords: 20,
  /** Errors that are counted separately. */
  shownErrors: 50,
} as const

export interface RecordError {
  path: string
  message: string
}

export interface CountedError extends RecordError {
  records: number
}

/** `Place`: where a record is, for example its line. */
export class MismatchReport<Place> {
  /** The number of records that do not match. */
  records = 0
  readonly first: { place: Place; errors: readonly RecordError[] }[] = []
  readonly #errors = new Map<string, CountedError>()

  add(place: Place, errors: readonly RecordError[]): void {
    if (errors.length === 0) return
    this.records += 1
    if (this.first.length < checkLimits.shownRecords) this.first.push({ place, errors })
    // Several elements of a list with the same error count once.
    const distinct = new Map(
      errors.map(({ path, message }) => {
        const everyIndex = path.replace(/\/\d+(?=\/|$)/g, '/*')
        return [`${everyIndex}\n${message}`, { path: everyIndex, message }]
      }),
    )
    for (const [key, error] of distinct) this.#count(key, error)
  }

  /** Most frequent first. */
  get errors(): CountedError[] {
    return [...this.#errors.values()].sort((a, b) => b.records - a.records).slice(0, checkLimits.shownErrors)
  }

  #count(key: string, error: RecordError): void {
    const known = this.#errors.get(key)
    if (known !== undefined) known.records += 1
    else if (this.#errors.size < countedErrors) this.#errors.set(key, { ...error, records: 1 })
  }
}

/** Paths come from records: a map of a record can have a different key in each of them. */
const countedErrors = 1_000
