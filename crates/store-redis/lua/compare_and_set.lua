-- Reads the states of limits that no script can decide, and stores what the caller decided: all keys of
-- a group if none has changed since the caller read it, otherwise none of them.
--
-- ARGV[1] is packed: a list for each group, with three values for each of its keys: the state that the
-- caller found, or false; the new one, false to leave the key as it is, or an empty string to delete it;
-- and the time at which it may be forgotten. KEYS are in the same order. Without groups, keys are
-- only read.
--
-- Returns the outcome for each group; each key's state, or nil if its group is done; and the time.
local DIFFERS, WRITTEN, OCCUPIED = 0, 1, 2
local groups = cmsgpack.unpack(ARGV[1])
local found = call('MGET', unpack(KEYS))

local function is_as_found(group, first, size)
  for i = 0, size - 1 do
    if found[first + i] ~= group[i * 3 + 1] then return false end
  end
  return true
end

-- Writes new keys first: one of them may hold another type, which looks like nothing, and then nothing
-- must have been written.
local function write(group, first, size)
  local created = {}
  for i = 0, size - 1 do
    local was, state = group[i * 3 + 1], group[i * 3 + 2]
    if not was and state and state ~= '' then
      local key = KEYS[first + i]
      if not keep(key, false, state, group[i * 3 + 3] - now) then
        for _, other in ipairs(created) do call('DEL', other) end
        return OCCUPIED
      end
      created[#created + 1] = key
    end
  end
  for i = 0, size - 1 do
    local key, was, state = KEYS[first + i], group[i * 3 + 1], group[i * 3 + 2]
    if state == '' then
      call('DEL', key)
    elseif was and state then
      keep(key, was, state, group[i * 3 + 3] - now)
    end
  end
  return WRITTEN
end

local reply, first = {}, 1
for number, group in ipairs(groups) do
  local size = #group / 3
  reply[number] = DIFFERS
  if is_as_found(group, first, size) then
    reply[number] = write(group, first, size)
    for i = first, first + size - 1 do found[i] = false end
  end
  first = first + size
end
for i = 1, #KEYS do reply[#groups + i] = found[i] end
reply[#groups + #KEYS + 1] = now
reply[#groups + #KEYS + 2] = mark
return reply
