/** A search field whose text is part of the address. */
import { type Ref, useEffect, useState } from 'react'
import { useParam, useSetParams } from '../data/address.ts'
import { TextField } from './fields.tsx'

/** A browser accepts only some changes of the address per second. */
const pauseMs = 250

interface SearchFieldProps {
  label?: string
  placeholder?: string
  /** The name of the parameter. */
  name?: string
  type?: 'search' | 'text'
  mono?: boolean
  ref?: Ref<HTMLInputElement>
  /** Parameters that a new search removes, such as the page of the list. */
  resets?: readonly string[]
}

/** Returns the text as it is typed, and the field. The address follows after a short pause, or when the field is left. */
export function useSearchField({
  label = 'Search',
  name = 'q',
  type = 'search',
  resets = ['page'],
  ...field
}: SearchFieldProps) {
  const stored = useParam(name)
  const setParams = useSetParams()
  /** Null: the text is that of the address. */
  const [typed, setTyped] = useState<string | null>(null)
  const store = () => {
    if (typed === null) return
    setParams({ ...Object.fromEntries(resets.map((one) => [one, null])), [name]: typed })
    setTyped(null)
  }
  // biome-ignore lint/correctness/useExhaustiveDependencies: only typing begins a new pause
  useEffect(() => {
    if (typed === null) return
    const timer = setTimeout(store, pauseMs)
    return () => clearTimeout(timer)
  }, [typed])
  const text = typed ?? stored
  return {
    text,
    field: <TextField {...field} label={label} type={type} value={text} onValue={setTyped} onBlur={store} />,
  }
}
