-- The time of everything that is decided here: Redis's own, read once.
local time = call('TIME')
local now = time[1] * 1000000 + time[2]

-- Writes a state with the time for which it matters: never without one. If none was found, nothing
-- else may be there either, such as a list: returns whether that is so.
local function keep(key, was, state, micros)
  local millis = max(1, ceil(micros / 1000))
  if not was then return call('SET', key, state, 'PX', millis, 'NX') end
  return call('PSETEX', key, millis, state)
end
